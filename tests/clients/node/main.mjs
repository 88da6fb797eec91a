// The Node driver against a server: main.mjs plain|auth|tls|compression|set PORT [CA file | folder of the cluster].

import { MongoClient } from 'mongodb';

import * as access from './access.mjs';
import { collections } from './collections.mjs';
import { documents } from './documents.mjs';
import { run } from './harness.mjs';
import { queries } from './queries.mjs';
import { sets } from './sets.mjs';

const [mode, port, extra] = process.argv.slice(2);
const uri = `mongodb://localhost:${port}/`;
const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10_000, monitorCommands: true });
const context = { uri, client, db: client.db('node'), extra };
const checks = {
  plain: { ...documents, ...queries, ...collections },
  auth: access.authentication,
  tls: access.encryption,
  compression: access.compression,
  set: sets,
};
// What a check of a set waits for, elections above all, takes longer.
const passed = await run(checks[mode], context, mode === 'set' ? 120 : 30);
await client.close();
// A check that was given up may still wait for an answer.
process.exit(passed ? 0 : 1);
