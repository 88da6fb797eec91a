// Finds, cursors, plans, aggregation and sessions.

import assert from 'node:assert/strict';

import { Long } from 'mongodb';

import { equal, fails } from './harness.mjs';

const ids = async (cursor) => (await cursor.toArray()).map((one) => one._id);

// The names of the commands that an action sends.
async function commands(client, action) {
  const names = [];
  const note = (event) => names.push(event.commandName);
  client.on('commandStarted', note);
  await action();
  client.off('commandStarted', note);
  return names;
}

function stages(plan) {
  return plan ? [plan.stage, ...stages(plan.inputStage)] : [];
}

const orders = [
  { _id: 1, by: 'ann', items: [{ what: 'pen', n: 2 }, { what: 'ink', n: 1 }], price: 5 },
  { _id: 2, by: 'bob', items: [{ what: 'pen', n: 1 }], price: 2.5 },
  { _id: 3, by: 'ann', items: [], price: 4 },
];

export const queries = {
  'find-filters': async ({ db }) => {
    const things = db.collection('filters');
    await things.insertMany([
      { _id: 1, n: 1, tags: ['a', 'b'], s: 'apple', sub: [{ k: 1, v: 2 }] },
      { _id: 2, n: 2.5, tags: ['b'], s: 'Banana', sub: [{ k: 1, v: 1 }] },
      { _id: 3, n: Long.fromNumber(3), tags: [], s: null },
      { _id: 4, tags: 'a' },
    ]);
    for (const [query, wanted] of [
      [{ n: { $gt: 1, $lte: 3 } }, [2, 3]],
      [{ n: { $in: [1, 3] } }, [1, 3]],
      [{ $or: [{ n: 1 }, { tags: [] }] }, [1, 3]],
      [{ s: /^b/i }, [2]],
      [{ n: { $exists: false } }, [4]],
      [{ n: { $not: { $gte: 2 } } }, [1, 4]],
      [{ n: { $type: 'long' } }, [3]],
      [{ tags: { $all: ['b', 'a'] } }, [1]],
      [{ tags: { $size: 1 } }, [2]],
      [{ sub: { $elemMatch: { k: 1, v: 1 } } }, [2]],
      [{ $expr: { $gt: ['$n', 2] } }, [2, 3]],
    ]) {
      equal({ query, found: await ids(things.find(query).sort({ _id: 1 })) }, { query, found: wanted });
    }
  },

  'find-sort-skip-limit': async ({ db }) => {
    const find = db.collection('many').find({}, { projection: { _id: 1 } });
    equal(await ids(find.sort({ group: -1, _id: 1 }).skip(3).limit(4)), [39, 49, 59, 69]);
  },

  'find-projection': async ({ db }) => {
    const find = (projection) => db.collection('filters').findOne({ _id: 1 }, { projection });
    equal(await find({ _id: 0, 'sub.k': 1 }), { sub: [{ k: 1 }] });
    equal(await find({ tags: { $slice: -1 }, sub: 0, s: 0 }), { _id: 1, n: 1, tags: ['b'] });
  },

  'find-hint-comment': async ({ db }) => {
    const find = db.collection('many').find({ _id: { $lt: 5 } }, { hint: { _id: 1 }, comment: { any: 'value' } });
    equal(await ids(find), [0, 1, 2, 3, 4]);
  },

  'count-distinct': async ({ db }) => {
    equal(await db.collection('many').estimatedDocumentCount(), 2500);
    equal(await db.collection('many').countDocuments({ group: 3 }, { skip: 100, limit: 20 }), 20);
    equal(await db.collection('many').distinct('group', { _id: { $lt: 3 } }), [0, 1, 2]);
  },

  'cursor-batches': async ({ client, db }) => {
    const names = await commands(client, async () => {
      let wanted = 0;
      for await (const one of db.collection('many').find().sort({ _id: 1 }).batchSize(600)) {
        equal(one._id, wanted);
        wanted += 1;
      }
      equal(wanted, 2500);
    });
    equal(names, ['find', 'getMore', 'getMore', 'getMore', 'getMore']);
  },

  'cursor-kill': async ({ client, db }) => {
    const cursor = db.collection('many').find().batchSize(10);
    await cursor.next();
    const { id } = cursor;
    equal(await commands(client, () => cursor.close()), ['killCursors']);
    await fails(43, db.command({ getMore: id, collection: 'many' }));
  },

  'capped-tailable': async ({ db }) => {
    const capped = await db.createCollection('capped', { capped: true, size: 1 << 20, max: 5 });
    await capped.insertMany(Array.from({ length: 8 }, (_, n) => ({ _id: n })));
    equal(await ids(capped.find()), [3, 4, 5, 6, 7]);
    const cursor = capped.find({ _id: { $gte: 7 } }, { tailable: true, awaitData: true, maxAwaitTimeMS: 5000 });
    equal((await cursor.next())._id, 7);
    const next = cursor.next();
    await new Promise((resolve) => setTimeout(resolve, 100));
    await capped.insertOne({ _id: 8 });
    equal((await next)._id, 8);
    await cursor.close();
  },

  explain: async ({ db }) => {
    const plans = db.collection('plans');
    await plans.insertMany(Array.from({ length: 500 }, (_, n) => ({ a: n % 50, b: n })));
    await plans.createIndex({ a: 1, b: 1 });
    const indexed = await plans.find({ a: 7, b: { $gt: 100 } }).explain('executionStats');
    equal(stages(indexed.queryPlanner.winningPlan), ['FETCH', 'IXSCAN']);
    equal([indexed.executionStats.nReturned, indexed.executionStats.totalKeysExamined], [8, 8]);
    equal(stages((await plans.find({ b: 7 }).explain('queryPlanner')).queryPlanner.winningPlan), ['COLLSCAN']);
  },

  sessions: async ({ client, db }) => {
    await client.withSession(async (session) => {
      await db.collection('sessions').insertOne({ _id: 1 }, { session });
      equal(await db.collection('sessions').findOne({}, { session }), { _id: 1 });
    });
  },

  'transactions-refused': async ({ client, db }) => {
    const session = client.startSession();
    session.startTransaction();
    // The driver puts its own words in the place of code 20.
    await assert.rejects(db.collection('sessions').insertOne({ _id: 2 }, { session }), /does not support retryable writes/);
    await session.abortTransaction().catch(() => {});
    await session.endSession();
    equal(await db.collection('sessions').countDocuments({ _id: 2 }), 0);
  },

  'aggregate-group': async ({ db }) => {
    await db.collection('orders').insertMany(orders);
    const group = { _id: '$by', sum: { $sum: '$price' }, n: { $sum: 1 }, all: { $push: '$_id' } };
    const found = await db.collection('orders').aggregate([{ $group: group }, { $sort: { _id: 1 } }]).toArray();
    equal(found, [{ _id: 'ann', sum: 9, n: 2, all: [1, 3] }, { _id: 'bob', sum: 2.5, n: 1, all: [2] }]);
  },

  'aggregate-lookup-unwind': async ({ db }) => {
    await db.collection('stock').insertMany([{ _id: 'pen', left: 7 }]);
    const found = db.collection('orders').aggregate([
      { $unwind: '$items' },
      { $lookup: { from: 'stock', localField: 'items.what', foreignField: '_id', as: 'stock' } },
      { $match: { 'stock.left': 7 } },
      { $project: { what: '$items.what' } },
      { $sort: { _id: 1 } },
    ]);
    equal(await found.toArray(), [{ _id: 1, what: 'pen' }, { _id: 2, what: 'pen' }]);
  },

  'aggregate-facet': async ({ db }) => {
    const facet = { count: [{ $count: 'n' }], who: [{ $sortByCount: '$by' }] };
    const [found] = await db.collection('orders').aggregate([{ $facet: facet }]).toArray();
    equal(found, { count: [{ n: 3 }], who: [{ _id: 'ann', count: 2 }, { _id: 'bob', count: 1 }] });
  },

  'aggregate-out': async ({ db }) => {
    await db.collection('orders').aggregate([{ $project: { by: 1 } }, { $out: 'written' }]).toArray();
    equal(await db.collection('written').countDocuments(), 3);
  },

  'aggregate-merge': async ({ db }) => {
    await db.collection('merged').insertOne({ _id: 'ann', kept: true });
    const group = { $group: { _id: '$by', sum: { $sum: '$price' } } };
    await db.collection('orders').aggregate([group, { $merge: 'merged' }]).toArray();
    equal(await db.collection('merged').findOne({ _id: 'ann' }), { _id: 'ann', kept: true, sum: 9 });
  },

  'aggregate-batches': async ({ db }) => {
    const cursor = db.collection('many').aggregate([{ $match: { group: 1 } }, { $sort: { _id: -1 } }], { batchSize: 50 });
    const found = await ids(cursor);
    equal([found.length, found[0], found[249]], [250, 2491, 1]);
  },

  'error-unknown-command': async ({ db }) => {
    equal((await fails(59, db.command({ noSuchCommand: 1 }))).codeName, 'CommandNotFound');
  },

  'error-update': async ({ db }) => {
    await db.collection('errors').insertOne({ _id: 1, text: 't' });
    await fails(9, db.collection('errors').updateOne({ _id: 1 }, { $nothing: { a: 1 } }));
    await fails(14, db.collection('errors').updateOne({ _id: 1 }, { $inc: { text: 1 } }));
    await fails(66, db.collection('errors').updateOne({ _id: 1 }, { $set: { _id: 2 } }));
  },

  'error-query': async ({ db }) => {
    await fails(2, db.collection('errors').findOne({ a: { $nothing: 1 } }));
    await fails(40324, db.collection('errors').aggregate([{ $nothing: {} }]).toArray());
  },

  'error-max-time': async ({ db }) => {
    // Each of the 2500 looks at all 2500: far more than 50 ms of work.
    const match = { $match: { $expr: { $eq: ['$text', '$$mine'] } } };
    const lookup = { from: 'many', let: { mine: '$group' }, pipeline: [match], as: 'x' };
    await fails(50, db.collection('many').aggregate([{ $lookup: lookup }], { maxTimeMS: 50 }).toArray());
    assert((await db.collection('many').find({}, { maxTimeMS: 60_000 }).toArray()).length === 2500);
  },
};
