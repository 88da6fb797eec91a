// One line for each check: `ok NAME`, or `FAILED NAME: why`. Loaded in front of a session.

let failures = 0;

function equal(found, wanted) {
  if (EJSON.stringify(found) !== EJSON.stringify(wanted)) {
    throw new Error(`found ${EJSON.stringify(found)}, wanted ${EJSON.stringify(wanted)}`);
  }
}

function holds(truth, text) {
  if (!truth) {
    throw new Error(text);
  }
}

function fails(code, action) {
  let result;
  try {
    result = action();
  } catch (error) {
    holds(error.code === code, `failed with ${error.code} and not ${code}: ${error.message}`);
    return error;
  }
  throw new Error(`succeeded with ${EJSON.stringify(result)} and should have failed with ${code}`);
}

function check(name, action) {
  try {
    action();
    print(`ok ${name}`);
  } catch (error) {
    failures += 1;
    print(`FAILED ${name}: ${`${error.message}`.replace(/\s+/g, ' ').slice(0, 600)}`);
  }
}

function finish() {
  quit(failures === 0 ? 0 : 1);
}
