// What a person types into mongosh on a replica set of three. FOURTH is a server that belongs to the set and is not in it yet.

/* global equal, holds, fails, check, finish, FOURTH */

const admin = db.getSiblingDB('admin');
const things = db.getSiblingDB('shell').things;

function until(what, look) {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = look();
    if (found) {
      return found;
    }
    holds(Date.now() < end, `in vain: ${what}`);
    sleep(50);
  }
}

const states = () => rs.status().members.map((one) => one.stateStr).sort();
const primary = () => rs.status().members.find((one) => one.stateStr === 'PRIMARY')?.name;

// Prints go where a test can see them.
function printed(action) {
  const shown = action();
  return shown && shown.value !== undefined ? shown.value : shown;
}

check('set-status', () => {
  // Members tell whom they follow, and that they have the newest configuration, with their next heartbeat.
  const follow = (member) => (member.stateStr === 'PRIMARY' || member.syncSourceHost) && member.configVersion > 1;
  until('the secondaries follow', () => rs.status().members.every(follow));
  const status = rs.status();
  equal([status.ok, status.set, status.myState], [1, 'replset', 1]);
  equal(states(), ['PRIMARY', 'SECONDARY', 'SECONDARY']);
  for (const member of status.members) {
    equal(member.health, 1);
    holds(member.optimeDate instanceof Date && member.uptime >= 0, EJSON.stringify(member));
  }
  holds(status.optimes.lastCommittedOpTime.ts instanceof Timestamp && status.term >= 1, EJSON.stringify(status.optimes));
  equal(status.members.filter((one) => one.self).length, 1);
});

check('set-conf', () => {
  const conf = rs.conf();
  equal([conf._id, conf.members.length, conf.protocolVersion], ['replset', 3, 1]);
  equal(conf.members[2].tags, { dc: 'west', engine: 'rocksdb' });
  equal(conf.settings.getLastErrorModes, { dcs: { dc: 2 } });
  equal(rs.config(), conf);
});

check('set-hello', () => {
  const hello = rs.hello();
  equal([hello.isWritablePrimary, hello.secondary, hello.setName, hello.hosts.length], [true, false, 'replset', 3]);
  equal([hello.me, hello.setVersion], [hello.primary, rs.conf().version]);
  equal(db.hello().electionId, hello.electionId);
  equal(rs.isMaster().ismaster, true);
  equal(db.isMaster().setName, 'replset');
});

check('set-print-replication-info', () => {
  const info = db.getReplicationInfo();
  holds(info.configuredLogSizeMB > 0 && info.usedMB >= 0 && info.timeDiff >= 0 && info.tFirst && info.tLast, EJSON.stringify(info));
  const shown = printed(() => rs.printReplicationInfo());
  holds(`${shown['configured oplog size']}`.endsWith('MB') && shown['oplog first event time'], EJSON.stringify(shown));
});

check('set-print-secondary-replication-info', () => {
  const shown = printed(() => rs.printSecondaryReplicationInfo());
  const text = EJSON.stringify(shown);
  equal((text.match(/source: /g) ?? []).length, 2);
  holds(text.includes('behind the primary') || text.includes('syncedTo'), text);
});

check('set-read-preference', () => {
  things.insertMany(Array.from({ length: 100 }, (_, n) => ({ _id: n })), { writeConcern: { w: 3, wtimeout: 60_000 } });
  db.getMongo().setReadPref('secondary');
  equal(things.find().toArray().length, 100);
  holds(things.explain().find().finish().serverInfo.port !== Number(primary().split(':')[1]), 'read from the primary');
  db.getMongo().setReadPref('primary');
  equal(things.find().readPref('secondary', [{ engine: 'rocksdb' }]).explain().serverInfo.port, Number(rs.conf().members[2].host.split(':')[1]));
});

check('set-add-remove', () => {
  equal(rs.add({ host: FOURTH, priority: 0, votes: 0 }).ok, 1);
  equal(rs.conf().members.length, 4);
  until('the fourth is a secondary', () => states().join() === 'PRIMARY,SECONDARY,SECONDARY,SECONDARY');
  things.insertOne({ _id: 'for four' }, { writeConcern: { w: 4, wtimeout: 60_000 } });
  equal(rs.remove(FOURTH).ok, 1);
  equal(rs.conf().members.length, 3);
  fails(100, () => things.insertOne({ _id: 'for four again' }, { writeConcern: { w: 4 } }));
});

check('set-reconfig', () => {
  const conf = rs.conf();
  conf.members[1].hidden = true;
  conf.members[1].priority = 0;
  equal(rs.reconfig(conf).ok, 1);
  equal([rs.conf().version, rs.hello().hosts.length], [conf.version, 2]);
  const wrong = rs.conf();
  wrong._id = 'other';
  fails(103, () => rs.reconfig(wrong));
  const back = rs.conf();
  back.members[1].hidden = false;
  back.members[1].priority = 1;
  equal(rs.reconfig(back).ok, 1);
  equal(rs.hello().hosts.length, 3);
});

check('set-freeze', () => {
  fails(95, () => rs.freeze(1));
});

check('set-step-down', () => {
  until('all have what the primary has', () => states().join() === 'PRIMARY,SECONDARY,SECONDARY');
  const before = primary();
  try {
    rs.stepDown(30, 10);
  } catch (error) {
    // The server may close the connection before it has answered.
    holds(/closed|Network/.test(`${error.name} ${error.message}`), `${error.name} ${error.message}`);
  }
  let after = before;
  for (let looks = 0; looks < 600 && (!after || after === before); looks += 1) {
    sleep(100);
    try {
      after = primary();
    } catch (error) {
      // A connection that the step-down closed.
    }
  }
  holds(after && after !== before, `${after} after ${before}`);
  things.insertOne({ _id: 'after the step-down' }, { writeConcern: { w: 3, wtimeout: 60_000 } });
  equal(things.countDocuments({ _id: 'after the step-down' }), 1);
  equal(admin.runCommand({ hello: 1 }).setName, 'replset');
});

finish();
