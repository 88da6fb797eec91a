// Insert, update, delete, bulk writes and write concerns.

import assert from 'node:assert/strict';

import { BSON, Binary, Decimal128, Double, Int32, Long, MaxKey, MinKey, MongoBulkWriteError, MongoServerError, ObjectId, Timestamp, UUID } from 'mongodb';

import { equal, fails } from './harness.mjs';

const { EJSON } = BSON;

async function bulkError({ db }, ordered) {
  const things = db.collection(`bulk_errors_${ordered}`);
  try {
    await things.insertMany([1, 2, 1, 3, 2, 4].map((_id) => ({ _id })), { ordered });
  } catch (error) {
    assert(error instanceof MongoBulkWriteError);
    return { error, count: await things.countDocuments() };
  }
  throw new Error('no error');
}

async function after({ db }, before, update, options) {
  const things = db.collection('updates');
  await things.replaceOne({ _id: 1 }, before, { upsert: true });
  equal((await things.updateOne({ _id: 1 }, update, options)).matchedCount, 1);
  const { _id, ...rest } = await things.findOne({ _id: 1 });
  return rest;
}

export const documents = {
  connect: async ({ client }) => {
    const hello = await client.db('admin').command({ hello: 1 });
    assert(hello.isWritablePrimary && hello.maxWireVersion >= 9, JSON.stringify(hello));
    equal((await client.db('admin').command({ ping: 1 })).ok, 1);
  },

  'server-version': async ({ client }) => {
    const info = await client.db('admin').admin().buildInfo();
    equal(info.versionArray.slice(0, 3).join('.'), info.version);
  },

  'insert-one': async ({ db }) => {
    const { insertedId } = await db.collection('insert').insertOne({ a: 1 });
    assert(insertedId instanceof ObjectId);
    equal(await db.collection('insert').findOne({ _id: insertedId }), { _id: insertedId, a: 1 });
  },

  'insert-many': async ({ db }) => {
    const many = Array.from({ length: 2500 }, (_, n) => ({ _id: n, group: n % 10, text: `text ${n}` }));
    equal((await db.collection('many').insertMany(many)).insertedCount, 2500);
    equal(await db.collection('many').countDocuments(), 2500);
  },

  'insert-large': async ({ db }) => {
    const large = 'x'.repeat(15 * 1024 * 1024);
    await db.collection('large').insertOne({ _id: 0, large });
    equal((await db.collection('large').findOne({ _id: 0 })).large.length, large.length);
  },

  'bson-types': async ({ db }) => {
    const types = db.collection('types', { promoteValues: false, promoteLongs: false });
    const document = {
      _id: 'types',
      int: new Int32(7),
      long: Long.fromString('1099511627776'),
      double: new Double(2),
      decimal: Decimal128.fromString('1.10'),
      date: new Date(1582979415123),
      binary: new Binary(Buffer.from([0, 1, 255])),
      uuid: new UUID('00112233-4455-6677-8899-aabbccddeeff').toBinary(),
      id: new ObjectId('0123456789abcdef01234567'),
      regex: /^a.*b$/i,
      timestamp: new Timestamp({ t: 1600000000, i: 7 }),
      min: new MinKey(),
      max: new MaxKey(),
      null: null,
      nested: { array: [new Int32(1), [{ three: new Int32(3) }], null], empty: {} },
    };
    await types.insertOne(document);
    const found = await types.findOne({ _id: 'types' });
    equal(Object.keys(found), Object.keys(document));
    for (const field of Object.keys(document)) {
      equal(EJSON.stringify(found[field], { relaxed: false }), EJSON.stringify(document[field], { relaxed: false }));
    }
  },

  'update-operators': async (c) => {
    equal(await after(c, { a: 1 }, { $set: { 'b.c': 2 }, $inc: { a: 2 }, $mul: { t: 3 } }), { a: 3, b: { c: 2 }, t: 0 });
    equal(await after(c, { a: 5, b: 5, o: 1 }, { $min: { a: 3 }, $max: { b: 7 }, $rename: { o: 'n' } }), { a: 3, b: 7, n: 1 });
    equal(await after(c, { a: 1, b: 2 }, { $unset: { b: '' } }), { a: 1 });
    const dated = await after(c, {}, { $currentDate: { at: true } });
    assert(dated.at instanceof Date);
  },

  'update-arrays': async (c) => {
    equal(await after(c, { a: [3, 4] }, { $push: { a: { $each: [5, 1], $sort: -1, $slice: 3 } } }), { a: [5, 4, 3] });
    equal(await after(c, { a: [1] }, { $addToSet: { a: { $each: [1, 2] } } }), { a: [1, 2] });
    equal(await after(c, { a: [1, 2, 3] }, { $pull: { a: { $gte: 2 } } }), { a: [1] });
    const update = { $set: { 'a.$[e].v': 9 } };
    const before = { a: [{ k: 1 }, { k: 2 }] };
    equal(await after(c, before, update, { arrayFilters: [{ 'e.k': 2 }] }), { a: [{ k: 1 }, { k: 2, v: 9 }] });
  },

  'update-many': async ({ db }) => {
    const result = await db.collection('many').updateMany({ group: 3 }, { $set: { seen: true } });
    equal([result.matchedCount, result.modifiedCount], [250, 250]);
    await db.collection('many').updateMany({ seen: true }, { $unset: { seen: '' } });
  },

  'update-upsert': async ({ db }) => {
    const options = { upsert: true };
    const update = { $set: { a: 1 }, $setOnInsert: { new: true } };
    const result = await db.collection('upserts').updateOne({ _id: 'key' }, update, options);
    equal([result.upsertedId, result.upsertedCount, result.matchedCount], ['key', 1, 0]);
    equal(await db.collection('upserts').findOne(), { _id: 'key', a: 1, new: true });
  },

  'update-pipeline': async (c) => {
    equal(await after(c, { a: 1, b: 2 }, [{ $set: { sum: { $add: ['$a', '$b'] } } }, { $unset: 'b' }]), { a: 1, sum: 3 });
  },

  replace: async ({ db }) => {
    equal((await db.collection('replaced').replaceOne({ _id: 1 }, { a: 1 }, { upsert: true })).upsertedId, 1);
    equal((await db.collection('replaced').replaceOne({ a: 1 }, { b: 2 })).modifiedCount, 1);
  },

  'find-and-modify': async ({ db }) => {
    const jobs = db.collection('jobs');
    await jobs.insertMany([0, 1, 2].map((n) => ({ _id: n, rank: -n, state: 'new' })));
    const taken = await jobs.findOneAndUpdate({ state: 'new' }, { $set: { state: 'old' } }, { sort: { rank: 1 } });
    equal(taken, { _id: 2, rank: -2, state: 'new' });
    const options = { upsert: true, returnDocument: 'after' };
    equal(await jobs.findOneAndUpdate({ _id: 9 }, { $inc: { n: 1 } }, options), { _id: 9, n: 1 });
    equal(await jobs.findOneAndReplace({ _id: 9 }, { b: 1 }), { _id: 9, n: 1 });
    equal(await jobs.findOneAndDelete({ _id: 9 }), { _id: 9, b: 1 });
    equal(await jobs.findOneAndDelete({ _id: 9 }), null);
  },

  delete: async ({ db }) => {
    await db.collection('deleted').insertMany(Array.from({ length: 10 }, (_, n) => ({ _id: n, odd: n % 2 })));
    equal((await db.collection('deleted').deleteOne({ odd: 1 })).deletedCount, 1);
    equal((await db.collection('deleted').deleteMany({ odd: 1 })).deletedCount, 4);
    equal(await db.collection('deleted').countDocuments(), 5);
  },

  'bulk-ordered': async ({ db }) => {
    const result = await db.collection('bulk').bulkWrite([
      { insertOne: { document: { _id: 1 } } },
      { insertOne: { document: { _id: 2 } } },
      { updateOne: { filter: { _id: 1 }, update: { $set: { a: 1 } } } },
      { updateMany: { filter: {}, update: { $set: { b: 1 } } } },
      { replaceOne: { filter: { _id: 3 }, replacement: { c: 1 }, upsert: true } },
      { deleteMany: { filter: { _id: 2 } } },
    ]);
    const { insertedCount, matchedCount, modifiedCount, deletedCount, upsertedIds } = result;
    equal({ insertedCount, matchedCount, modifiedCount, deletedCount, upsertedIds },
      { insertedCount: 2, matchedCount: 3, modifiedCount: 3, deletedCount: 1, upsertedIds: { 4: 3 } });
  },

  'bulk-ordered-error': async (c) => {
    const { error, count } = await bulkError(c, true);
    equal([error.code, error.result.insertedCount, count], [11000, 2, 2]);
    equal(error.writeErrors.map((one) => one.index), [2]);
  },

  'bulk-unordered-error': async (c) => {
    const { error, count } = await bulkError(c, false);
    equal([error.code, error.result.insertedCount, count], [11000, 4, 4]);
    equal(error.writeErrors.map((one) => one.index), [2, 4]);
  },

  'duplicate-key': async ({ db }) => {
    const people = db.collection('people');
    await people.createIndex({ name: 1, born: -1 }, { unique: true });
    await people.insertOne({ name: 'A', born: 1 });
    const error = await fails(11000, people.insertOne({ name: 'A', born: 1 }));
    assert(error instanceof MongoServerError);
    equal([error.keyPattern, error.keyValue], [{ name: 1, born: -1 }, { name: 'A', born: 1 }]);
    assert(error.message.includes('E11000 duplicate key error collection: node.people index: name_1_born_-1'));
  },

  'write-concern': async ({ db }) => {
    const journaled = db.collection('concerns', { writeConcern: { w: 1, j: true } });
    equal((await journaled.insertOne({ _id: 1 })).acknowledged, true);
    const silent = db.collection('concerns', { writeConcern: { w: 0 } });
    equal((await silent.insertOne({ _id: 2 })).acknowledged, false);
    await silent.insertOne({ _id: 2 });
    const deadline = Date.now() + 10_000;
    while ((await journaled.countDocuments()) < 2) {
      assert(Date.now() < deadline, 'the unacknowledged write never came');
    }
  },

  'write-concern-impossible': async ({ db }) => {
    await fails(2, db.collection('concerns').insertOne({ _id: 3 }, { writeConcern: { w: 2 } }));
  },
};
