// A replica set of three, found from one of its members. Members 2 and 3 have the tag `dc: west`, the third is on RocksDB; the mode
// `dcs` wants both places. Faults are made by `fathom cluster` (the program is in the variable FATHOM).

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';

import { MongoClient, MongoNetworkError, MongoServerSelectionError, ReadPreference } from 'mongodb';

import { equal, fails } from './harness.mjs';

const PATIENCE_MS = 60_000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) {
      return found;
    }
    assert.ok(Date.now() < end, `in vain: ${what}`);
    await sleep(20);
  }
}

// A client that knows one member of the set, and what it saw: what was sent to whom, and how its view changed.
class Watched {
  sent = [];
  changes = [];

  constructor({ uri }, options = {}) {
    const known = { replicaSet: 'replset', heartbeatFrequencyMS: 500, minHeartbeatFrequencyMS: 100, serverSelectionTimeoutMS: PATIENCE_MS };
    this.client = new MongoClient(uri, { ...known, monitorCommands: true, ...options });
    // Commands are told with the address that the name has, members with the name.
    const named = (address) => address.replace(/^(127\.0\.0\.1|\[?::1\]?):/, 'localhost:');
    this.client.on('commandStarted', (one) => this.sent.push({ name: one.commandName, address: named(one.address), number: one.command.txnNumber }));
    this.client.on('topologyDescriptionChanged', (one) => (this.topology = one.newDescription));
    this.client.on('serverDescriptionChanged', (one) => {
      const [before, after] = [one.previousDescription.type, one.newDescription.type];
      if (before !== after) {
        this.changes.push({ address: one.address, before, after });
      }
    });
  }

  of(type) {
    return [...(this.topology?.servers.values() ?? [])].filter((one) => one.type === type).map((one) => one.address);
  }

  // Waits until the driver knows the primary and two secondaries.
  async whole() {
    await until('a primary and two secondaries', () => this.of('RSPrimary').length === 1 && this.of('RSSecondary').length === 2);
    return { primary: this.of('RSPrimary')[0], secondaries: this.of('RSSecondary') };
  }

  // How often and to whom a command went; what was sent before is forgotten.
  asked(name) {
    const found = this.sent.filter((one) => one.name === name);
    this.sent = [];
    return found;
  }

  things(options = {}) {
    return this.client.db('node').collection('things', options);
  }

  async config() {
    return (await this.client.db('admin').command({ replSetGetConfig: 1 })).config;
  }

  failPoint(name, data) {
    return this.client.db('admin').command({ configureFailPoint: name, mode: { times: 1 }, data });
  }
}

function cluster({ extra }, action, ...rest) {
  execFileSync(process.env.FATHOM, ['cluster', action, '--dir', extra, ...rest], { stdio: 'pipe' });
}

let set;
const away = (options = {}) => new ReadPreference('secondary', options.tags, options);

export const sets = {
  'set-topology': async (context) => {
    set = new Watched(context);
    await set.client.connect();
    const { primary } = await set.whole();
    const config = await set.config();
    equal([set.topology.type, set.topology.setName, set.topology.maxSetVersion], ['ReplicaSetWithPrimary', 'replset', config.version]);
    for (const member of config.members) {
      const seen = set.topology.servers.get(member.host);
      equal([seen.tags, seen.setVersion, seen.me, seen.primary], [member.tags, config.version, member.host, primary]);
      equal(seen.logicalSessionTimeoutMinutes, 30);
      assert.ok(seen.lastWriteDate > 0);
    }
    assert.ok(set.topology.maxElectionId);
    assert.ok(set.changes.some((one) => one.address === primary && one.after === 'RSPrimary'), JSON.stringify(set.changes));
  },

  'set-read-preferences': async () => {
    const { primary, secondaries } = await set.whole();
    await set.things().insertMany(Array.from({ length: 300 }, (_, n) => ({ _id: n })), { writeConcern: { w: 3 } });
    const wanted = { primary: [primary], primaryPreferred: [primary], secondary: secondaries, secondaryPreferred: secondaries, nearest: [primary, ...secondaries] };
    for (const [mode, members] of Object.entries(wanted)) {
      const things = set.things({ readPreference: mode });
      set.sent = [];
      equal(await things.findOne({ _id: 7 }), { _id: 7 });
      equal(await things.countDocuments(), 300);
      equal((await things.distinct('_id')).length, 300);
      for (const one of set.sent) {
        assert.ok(members.includes(one.address), `${mode}: ${JSON.stringify(one)}`);
      }
      set.sent = [];
      equal((await things.find({}, { batchSize: 100 }).toArray()).length, 300);
      equal(new Set(set.sent.map((one) => one.address)).size, 1);
      assert.ok(set.asked('getMore').length >= 2);
    }
    // Reads spread over both secondaries.
    const asked = new Set();
    await until('both secondaries are read', async () => {
      await set.things({ readPreference: 'secondary' }).findOne();
      set.asked('find').forEach((one) => asked.add(one.address));
      return asked.size === 2;
    });
  },

  'set-tag-sets': async (context) => {
    const { primary } = await set.whole();
    const rocks = (await set.config()).members[2].host;
    for (const [preference, wanted] of [
      [new ReadPreference('secondary', [{ dc: 'west', engine: 'rocksdb' }]), rocks],
      [new ReadPreference('nearest', [{ dc: 'nowhere' }, { engine: 'rocksdb' }]), rocks],
      [new ReadPreference('secondaryPreferred', [{ dc: 'nowhere' }]), primary],
    ]) {
      set.sent = [];
      equal(await set.things({ readPreference: preference }).findOne({ _id: 1 }), { _id: 1 });
      equal(set.asked('find').map((one) => one.address), [wanted]);
    }
    const other = new Watched(context, { serverSelectionTimeoutMS: 300 });
    const nowhere = new ReadPreference('secondary', [{ dc: 'nowhere' }]);
    await assert.rejects(other.things({ readPreference: nowhere }).findOne(), MongoServerSelectionError);
    await other.client.close();
  },

  'set-max-staleness': async () => {
    const { secondaries } = await set.whole();
    set.sent = [];
    const recent = new ReadPreference('secondary', undefined, { maxStalenessSeconds: 90 });
    equal(await set.things({ readPreference: recent }).findOne({ _id: 1 }), { _id: 1 });
    assert.ok(secondaries.includes(set.asked('find')[0].address));
    const fresh = new ReadPreference('secondary', undefined, { maxStalenessSeconds: 5 });
    await assert.rejects(set.things({ readPreference: fresh }).findOne(), /maxStalenessSeconds/);
  },

  'set-read-concern': async () => {
    await set.things({ writeConcern: { w: 'majority' } }).insertOne({ _id: 'majority' });
    for (const level of ['local', 'available', 'majority', 'linearizable']) {
      equal(await set.things({ readConcern: { level } }).findOne({ _id: 'majority' }), { _id: 'majority' });
    }
    const sure = set.things({ readPreference: away(), readConcern: { level: 'majority' } });
    await until('a secondary knows what a majority has', () => sure.findOne({ _id: 'majority' }));
    const lone = set.things({ readPreference: away(), readConcern: { level: 'linearizable' } });
    await fails(10107, lone.findOne());
  },

  'set-causal': async () => {
    const session = set.client.startSession({ causalConsistency: true });
    const other = set.client.startSession();
    const things = set.things({ readPreference: away() });
    for (let n = 0; n < 50; n += 1) {
      const before = session.operationTime;
      await set.things().insertOne({ _id: `causal-${n}` }, { session });
      assert.ok(!before || session.operationTime.greaterThan(before));
      equal(await things.findOne({ _id: `causal-${n}` }, { session }), { _id: `causal-${n}` });
    }
    // Another session goes on from there, on a majority.
    other.advanceOperationTime(session.operationTime);
    other.advanceClusterTime(session.clusterTime);
    const sure = set.things({ readPreference: away(), readConcern: { level: 'majority' } });
    equal(await sure.countDocuments({ _id: /^causal-/ }, { session: other }), 50);
    await session.endSession();
    await other.endSession();
  },

  'set-write-concern': async () => {
    const concerns = [{ w: 1 }, { w: 2 }, { w: 3 }, { w: 'majority' }, { w: 'dcs' }, { w: 1, journal: true }, { w: 3, journal: true }];
    for (const [n, writeConcern] of concerns.entries()) {
      equal((await set.things({ writeConcern }).insertOne({ _id: `w-${n}` })).acknowledged, true);
    }
    const { primary, secondaries } = await set.whole();
    for (const address of [primary, ...secondaries]) {
      const direct = new MongoClient(`mongodb://${address}/?directConnection=true`);
      equal(await direct.db('node').collection('things').countDocuments({ _id: 'w-6' }), 1);
      await direct.close();
    }
  },

  'set-write-concern-unsatisfiable': async () => {
    for (const [w, code, name] of [[4, 100, 'UnsatisfiableWriteConcern'], ['nowhere', 79, 'UnknownReplWriteConcern']]) {
      const things = set.things({ writeConcern: { w } });
      const error = await fails(code, things.insertOne({ _id: `unsatisfiable-${w}` }));
      equal(error.result.writeConcernError.codeName, name);
      await fails(code, things.updateOne({ _id: 1 }, { $inc: { n: 1 } }));
      // The write stays.
      equal(await set.things().countDocuments({ _id: `unsatisfiable-${w}` }), 1);
    }
    equal(await set.things().findOne({ _id: 1 }), { _id: 1, n: 2 });
  },

  'set-write-concern-timeout': async (context) => {
    cluster(context, 'pause', 'secondary', '1');
    try {
      const late = set.things({ writeConcern: { w: 3, wtimeoutMS: 300 } });
      const error = await fails(64, late.insertOne({ _id: 'late' }));
      equal(error.errInfo.wtimeout, true);
      equal([error.errInfo.writeConcern.w, error.errInfo.writeConcern.wtimeout], [3, 300]);
      await fails(64, late.updateOne({ _id: 'late' }, { $inc: { n: 1 } }));
      // The write stays, and a majority can still be had.
      const majority = set.things({ writeConcern: { w: 'majority', wtimeoutMS: PATIENCE_MS } });
      equal(await majority.findOneAndUpdate({ _id: 'late' }, { $inc: { n: 1 } }, { returnDocument: 'after' }), { _id: 'late', n: 2 });
    } finally {
      cluster(context, 'resume', 'all');
    }
    await set.things({ writeConcern: { w: 3, wtimeoutMS: PATIENCE_MS } }).deleteOne({ _id: 'late' });
    await set.whole();
  },

  'set-direct': async () => {
    const { secondaries } = await set.whole();
    const direct = new MongoClient(`mongodb://${secondaries[0]}/?directConnection=true`);
    const hello = await direct.db('admin').command({ hello: 1 });
    equal([hello.secondary, hello.isWritablePrimary, hello.setName], [true, false, 'replset']);
    await fails(10107, direct.db('node').collection('things').insertOne({ _id: 'direct' }));
    await fails(10107, direct.db('node').createCollection('direct'));
    equal(await direct.db('node').collection('things').findOne({ _id: 2 }), { _id: 2 });
    await direct.close();
    const other = new MongoClient(`mongodb://${secondaries[0]}/?replicaSet=other`, { serverSelectionTimeoutMS: 300 });
    await assert.rejects(other.db('admin').command({ ping: 1 }), MongoServerSelectionError);
    await other.close();
  },

  'set-transactions-refused': async () => {
    const session = set.client.startSession();
    session.startTransaction();
    const error = await fails(263, set.things().insertOne({ _id: 'transaction' }, { session }));
    assert.match(error.message, /no multi-document transactions/);
    await session.abortTransaction().catch(() => {});
    await session.endSession();
    equal(await set.things().countDocuments({ _id: 'transaction' }), 0);
  },

  'set-change-streams-refused': async () => {
    const stream = set.things().watch();
    const error = await fails(40573, stream.next());
    assert.match(error.message, /no change streams/);
    await stream.close();
  },

  'set-retryable-before': async (context) => {
    await onceOnly(1, 'failCommand', { closeConnection: true });
    await onceOnly(2, 'failCommand', { errorCode: 91, errorLabels: ['RetryableWriteError'] });
    await set.failPoint('failCommand', { failCommands: ['insert'], closeConnection: true });
    const other = new Watched(context, { retryWrites: false });
    await assert.rejects(other.things().insertOne({ _id: 'not sent again' }), MongoNetworkError);
    await other.client.close();
    equal(await set.things().countDocuments({ _id: 'not sent again' }), 0);
  },

  'set-retryable-after': async () => {
    await onceOnly(3, 'onPrimaryTransactionalWrite', {});
    const writeConcernError = { code: 91, codeName: 'ShutdownInProgress', errmsg: 'made up' };
    await onceOnly(4, 'failCommand', { writeConcernError, errorLabels: ['RetryableWriteError'] });
  },

  'set-retryable-reads': async () => {
    await set.whole();
    const reads = { find: () => set.things().findOne({ _id: 2 }), distinct: () => set.things().distinct('_id'), aggregate: () => set.things().countDocuments() };
    for (const [name, read] of Object.entries(reads)) {
      await set.failPoint('failCommand', { failCommands: [name], closeConnection: true });
      set.sent = [];
      assert.ok(await read());
      equal(set.asked(name).length, 2);
    }
  },

  'set-step-down': (context) =>
    failover('stepped-down', async () => {
      const down = { replSetStepDown: 20, secondaryCatchUpPeriodSecs: 10 };
      await set.client.db('admin').command(down).catch((error) => assert.ok(error instanceof MongoNetworkError, error));
    }),

  'set-kill': async (context) => {
    await failover('killed', () => cluster(context, 'kill', '--signal', 'KILL', 'primary'));
    cluster(context, 'start');
    await set.whole();
    await set.things({ writeConcern: { w: 3, wtimeoutMS: PATIENCE_MS } }).insertOne({ _id: 'all are back' });
    await set.client.close();
  },
};

// Each kind of write, hit once by the fail point: sent twice under one number, done once.
async function onceOnly(n, point, data) {
  const kinds = set.client.db('node').collection('kinds');
  const more = { $inc: { n: 1 } };
  await kinds.insertOne({ _id: `before-${n}` });
  for (const [command, write] of [
    ['insert', () => kinds.insertOne({ _id: n, n: 0 })],
    ['insert', () => kinds.insertMany(['a', 'b', 'c'].map((letter) => ({ _id: `${n}-${letter}` })))],
    ['update', () => kinds.updateOne({ _id: n }, more)],
    ['findAndModify', () => kinds.findOneAndUpdate({ _id: n }, more)],
    ['update', () => kinds.updateOne({ _id: `up-${n}` }, more, { upsert: true })],
    ['delete', () => kinds.deleteOne({ _id: `${n}-a` })],
    ['update', () => kinds.bulkWrite([{ updateOne: { filter: { _id: n }, update: more } }, { deleteOne: { filter: { _id: `${n}-b` } } }])],
  ]) {
    await set.failPoint(point, point === 'failCommand' ? { ...data, failCommands: [command] } : data);
    set.sent = [];
    await write();
    const again = set.asked(command);
    assert.ok(again.length === 2 && again[0].number !== undefined, `${command}: ${JSON.stringify(again)}`);
    equal(`${again[0].number}`, `${again[1].number}`);
  }
  equal(await kinds.findOne({ _id: n }), { _id: n, n: 3 });
  equal(await kinds.findOne({ _id: `up-${n}` }), { _id: `up-${n}`, n: 1 });
  equal(await kinds.distinct('_id', { _id: { $in: ['a', 'b', 'c'].map((letter) => `${n}-${letter}`) } }), [`${n}-c`]);
}

// Writes one thing after the other until it is told to stop, and keeps what was acknowledged.
class Writer {
  acknowledged = [];
  counted = 0;
  failed = [];
  done = false;

  constructor(name) {
    this.name = name;
    this.rounds = set.client.db('node').collection('rounds', { writeConcern: { w: 'majority' } });
    this.ended = this.run();
  }

  async run() {
    for (let n = 0; !this.done; n += 1) {
      try {
        await this.rounds.insertOne({ _id: `${this.name}-${n}`, round: this.name });
        this.acknowledged.push(`${this.name}-${n}`);
        await this.rounds.updateOne({ _id: this.name }, { $inc: { n: 1 } }, { upsert: true });
        this.counted += 1;
      } catch (error) {
        this.failed.push(error);
      }
    }
  }

  async waitForMore() {
    const goal = this.counted + 20;
    await until('20 more writes', () => this.counted >= goal);
  }

  async end() {
    this.done = true;
    await this.ended;
    const there = new Set((await this.rounds.find({ round: this.name }).toArray()).map((one) => one._id));
    const lost = this.acknowledged.filter((id) => !there.has(id));
    const why = `failed: ${this.failed.map((error) => error.message).join('; ')}`;
    equal(lost, []);
    assert.ok(there.size <= this.acknowledged.length + this.failed.length, why);
    const { n } = await this.rounds.findOne({ _id: this.name });
    assert.ok(this.counted <= n && n <= this.counted + this.failed.length, `${n} after ${this.counted}, ${why}`);
  }
}

// Writes go on while the primary goes; the driver follows, and each write is there once.
async function failover(name, fault) {
  const { primary } = await set.whole();
  const writer = new Writer(name);
  try {
    await writer.waitForMore();
    set.changes = [];
    await fault();
    const now = await until('another primary', () => set.of('RSPrimary').find((one) => one !== primary));
    await writer.waitForMore();
    const changed = (address, side, type) => set.changes.some((one) => one.address === address && one[side] === type);
    assert.ok(changed(now, 'after', 'RSPrimary') && changed(primary, 'before', 'RSPrimary'), JSON.stringify(set.changes));
  } finally {
    await writer.end();
  }
}
