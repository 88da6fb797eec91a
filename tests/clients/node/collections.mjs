// Indexes, collections and databases: made, listed, renamed, changed, dropped.

import assert from 'node:assert/strict';

import { equal, fails } from './harness.mjs';

export const collections = {
  indexes: async ({ db }) => {
    const indexed = db.collection('indexed');
    const names = await indexed.createIndexes([
      { key: { a: 1, b: -1 } },
      { key: { c: 1 }, sparse: true },
      { key: { d: 1 }, partialFilterExpression: { d: { $gt: 5 } }, name: 'large d' },
      { key: { e: 'hashed' } },
      { key: { t: 1 }, expireAfterSeconds: 3600 },
    ]);
    equal(names, ['a_1_b_-1', 'c_1', 'large d', 'e_hashed', 't_1']);
    const listed = Object.fromEntries((await indexed.indexes()).map((one) => [one.name, one]));
    equal(Object.keys(listed).sort(), [...names, '_id_'].sort());
    equal(listed['a_1_b_-1'].key, { a: 1, b: -1 });
    equal(listed.t_1.expireAfterSeconds, 3600);
    await indexed.dropIndex('c_1');
    await indexed.dropIndexes();
    equal((await indexed.indexes()).map((one) => one.name), ['_id_']);
  },

  'index-errors': async ({ db }) => {
    const indexed = db.collection('indexed');
    await indexed.createIndex({ a: 1 });
    await fails(85, indexed.createIndex({ a: 1 }, { name: 'other' }));
    await fails(27, indexed.dropIndex('nothing_1'));
    await db.collection('twice').insertMany([{ a: 1 }, { a: 1 }]);
    await fails(11000, db.collection('twice').createIndex({ a: 1 }, { unique: true }));
  },

  'list-collections': async ({ client }) => {
    const db = client.db('node_lists');
    await db.createCollection('made');
    await db.collection('filled').insertOne({});
    equal((await db.listCollections().toArray()).map((one) => one.name).sort(), ['filled', 'made']);
    const [made] = await db.listCollections({ name: 'made' }).toArray();
    equal([made.type, made.idIndex.name], ['collection', '_id_']);
  },

  'list-databases': async ({ client }) => {
    const { databases, totalSize } = await client.db().admin().listDatabases();
    const listed = Object.fromEntries(databases.map((one) => [one.name, one]));
    assert(listed.node && !listed.node.empty && totalSize >= 0, JSON.stringify(databases));
    equal(await client.db('node_lists').dropDatabase(), true);
    assert(!(await client.db().admin().listDatabases({ nameOnly: true })).databases.some((one) => one.name === 'node_lists'));
  },

  rename: async ({ db }) => {
    await db.collection('before').insertOne({ _id: 1 });
    await db.collection('other').insertOne({ _id: 2 });
    await db.collection('before').rename('after');
    await fails(48, db.collection('other').rename('after'));
    await db.collection('other').rename('after', { dropTarget: true });
    equal(await db.collection('after').find().toArray(), [{ _id: 2 }]);
    await fails(26, db.collection('absent').rename('anything'));
  },

  drop: async ({ db }) => {
    await db.collection('dropped').insertOne({});
    equal(await db.collection('dropped').drop(), true);
    equal(await db.listCollections({ name: 'dropped' }).toArray(), []);
  },

  validation: async ({ db }) => {
    const valid = await db.createCollection('valid', { validator: { n: { $gte: 0 } } });
    await valid.insertOne({ _id: 1, n: 1 });
    await fails(121, valid.insertOne({ _id: 2, n: -1 }));
    await valid.insertOne({ _id: 2, n: -1 }, { bypassDocumentValidation: true });
  },

  views: async ({ db }) => {
    const view = await db.createCollection('groups', { viewOn: 'many', pipeline: [{ $match: { group: 4 } }] });
    equal(await view.countDocuments(), 250);
    await fails(166, view.insertOne({}));
  },

  statistics: async ({ db }) => {
    const figures = await db.stats();
    assert(figures.collections > 5 && figures.objects > 2500, JSON.stringify(figures));
    equal((await db.command({ collStats: 'many' })).count, 2500);
  },
};
