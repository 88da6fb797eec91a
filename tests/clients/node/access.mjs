// Users, TLS and compressed messages.

import assert from 'node:assert/strict';

import { MongoClient } from 'mongodb';

import { equal, fails } from './harness.mjs';

async function as({ uri }, options, action) {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 3000, ...options });
  try {
    return await action(client);
  } finally {
    await client.close();
  }
}

const ping = (client) => client.db('admin').command({ ping: 1 });
const user = (username, password, authMechanism, authSource = 'admin') => ({ auth: { username, password }, authMechanism, authSource });

export const authentication = {
  'auth-required': async ({ client, db }) => {
    equal((await ping(client)).ok, 1);
    await fails(13, db.collection('things').insertOne({}));
  },

  'auth-first-user': async ({ client }) => {
    await client.db('admin').command({ createUser: 'admin', pwd: 'secret', roles: ['root'] });
    await fails(13, client.db('admin').command({ createUser: 'second', pwd: 'x', roles: ['root'] }));
  },

  'auth-scram': async (c) => {
    for (const mechanism of ['SCRAM-SHA-256', 'SCRAM-SHA-1', 'DEFAULT']) {
      await as(c, user('admin', 'secret', mechanism), async (client) => {
        await client.db('node').collection('things').insertOne({ mechanism });
        const { authInfo } = await client.db('admin').command({ connectionStatus: 1 });
        equal(authInfo.authenticatedUsers, [{ user: 'admin', db: 'admin' }]);
      });
    }
  },

  'auth-wrong-password': async (c) => {
    for (const mechanism of ['SCRAM-SHA-256', 'SCRAM-SHA-1']) {
      await fails(18, as(c, user('admin', 'wrong', mechanism), ping));
    }
  },

  'auth-roles': async (c) => {
    await as(c, user('admin', 'secret'), (client) =>
      client.db('node').command({ createUser: 'reader', pwd: 'read', roles: ['read'] }));
    await as(c, user('reader', 'read', 'DEFAULT', 'node'), async (client) => {
      equal(await client.db('node').collection('things').countDocuments(), 3);
      await fails(13, client.db('node').collection('things').insertOne({}));
    });
  },
};

const refused = async (action) => assert.rejects(action, { name: 'MongoServerSelectionError' });

export const encryption = {
  tls: (c) => as(c, { tls: true, tlsCAFile: c.extra }, async (client) => {
    const secret = client.db('node').collection('secret');
    await secret.insertMany(Array.from({ length: 500 }, (_, n) => ({ _id: n, text: 'x'.repeat(10_000) })));
    equal((await secret.find().batchSize(100).toArray()).length, 500);
  }),
  'tls-required': (c) => refused(as(c, { serverSelectionTimeoutMS: 500 }, ping)),
  'tls-unknown-authority': (c) => refused(as(c, { tls: true, serverSelectionTimeoutMS: 500 }, ping)),
};

async function traffic({ client }) {
  const { network } = await client.db('admin').command({ serverStatus: 1 });
  return Number(network.physicalBytesIn) + Number(network.physicalBytesOut);
}

const roundTrip = (name) => async (c) => {
  const before = await traffic(c);
  const documents = Array.from({ length: 500 }, (_, n) => ({ _id: n, text: `${n} `.repeat(2000) }));
  await as(c, { compressors: [name] }, async (client) => {
    const things = client.db('node').collection(name);
    await things.insertMany(documents);
    equal((await things.find().sort({ _id: 1 }).batchSize(50).toArray())[7], documents[7]);
  });
  const size = 2 * documents.reduce((sum, one) => sum + one.text.length, 0);
  const sent = (await traffic(c)) - before;
  assert(sent < size / 4, `${sent} bytes for ${size}`);
};

export const compression = { 'compression-snappy': roundTrip('snappy'), 'compression-zlib': roundTrip('zlib') };
