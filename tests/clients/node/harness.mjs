// One line for each check: `ok NAME`, or `FAILED NAME: why`; the exit code says whether any failed.

import assert from 'node:assert/strict';

export const equal = (found, wanted) => assert.deepStrictEqual(found, wanted);

// Awaits what must fail with this code; returns the error.
export async function fails(code, promise) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    assert.equal(error.code, code, `failed with ${error.code} and not ${code}: ${error.message}`);
    return error;
  }
  throw new Error(`succeeded with ${JSON.stringify(result)} and should have failed with ${code}`);
}

// A check that hangs fails, so that those after it still run.
function within(seconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Runs the checks, an object of async functions by name, each for so many seconds at most; true if all passed.
export async function run(checks, context, seconds) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await within(seconds, check(context));
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      const where = /(\w+\.mjs:\d+)/.exec(error.stack?.split('\n').find((line) => /\w+\.mjs:/.test(line) && !line.includes('harness')) ?? '');
      console.log(`FAILED ${name}: ${where?.[1] ?? ''} ${`${error.message}`.replace(/\s+/g, ' ').slice(0, 600)}`);
    }
  }
  return failed === 0;
}
