// What a person types into mongosh.

/* global equal, holds, fails, check, finish */

const shell = db.getSiblingDB('shell');

check('shell-show', () => {
  shell.one.insertOne({ _id: 1 });
  shell.two.insertOne({ _id: 1 });
  equal(shell.getCollectionNames().sort(), ['one', 'two']);
  equal(shell.getCollectionInfos({ name: 'one' })[0].type, 'collection');
  holds(db.getMongo().getDBNames().includes('shell'), 'no database shell');
  holds(db.adminCommand({ listDatabases: 1 }).databases.some((one) => one.name === 'shell'), 'not listed');
});

check('shell-crud', () => {
  const things = shell.things;
  equal(things.insertMany([{ _id: 1, a: 1 }, { _id: 2, a: 2 }, { _id: 3, a: 3 }]).insertedIds, { 0: 1, 1: 2, 2: 3 });
  equal(things.find({ a: { $gte: 2 } }, { a: 0 }).sort({ _id: -1 }).limit(5).toArray(), [{ _id: 3 }, { _id: 2 }]);
  equal(things.updateOne({ _id: 1 }, { $set: { a: 5 } }).modifiedCount, 1);
  equal(things.updateMany({}, { $inc: { a: 1 } }).modifiedCount, 3);
  equal(things.replaceOne({ _id: 9 }, { b: 1 }, { upsert: true }).upsertedCount, 1);
  equal(things.findOneAndUpdate({ _id: 1 }, { $set: { c: 1 } }, { returnNewDocument: true }), { _id: 1, a: 6, c: 1 });
  equal(things.deleteOne({ _id: 9 }).deletedCount, 1);
  equal(things.countDocuments(), 3);
  equal(things.estimatedDocumentCount(), 3);
  equal(things.distinct('a').sort(), [3, 4, 6]);
  fails(11000, () => things.insertOne({ _id: 1 }));
  equal(things.find().toArray().length, 3);
});

check('shell-cursor', () => {
  shell.many.insertMany(Array.from({ length: 1000 }, (_, n) => ({ _id: n, group: n % 10 })));
  equal(shell.many.find().batchSize(100).toArray().length, 1000);
  const cursor = shell.many.find().batchSize(10);
  cursor.next();
  cursor.close();
});

check('shell-aggregate', () => {
  const pipeline = [{ $group: { _id: '$group', n: { $sum: 1 } } }, { $sort: { _id: 1 } }, { $limit: 1 }];
  equal(shell.many.aggregate(pipeline).toArray(), [{ _id: 0, n: 100 }]);
});

check('shell-indexes', () => {
  equal(shell.many.createIndex({ group: 1 }), 'group_1');
  equal(shell.many.getIndexes().map((one) => one.name), ['_id_', 'group_1']);
  const inFiles = db.serverStatus().storageEngine.name === 'wiredTiger';
  // RocksDB's estimate is 0 while all is in memory and in the journal.
  holds(shell.many.totalIndexSize() >= (inFiles ? 1 : 0), 'no size');
});

check('shell-explain', () => {
  const plan = shell.many.find({ group: 3 }).explain('executionStats');
  equal(plan.queryPlanner.winningPlan.inputStage.stage, 'IXSCAN');
  equal(plan.executionStats.nReturned, 100);
  equal(shell.many.explain().find({ nothing: 1 }).finish().queryPlanner.winningPlan.stage, 'COLLSCAN');
});

check('shell-statistics', () => {
  const status = db.serverStatus();
  holds(status.opcounters.insert >= 1000 && status.connections.current > 0, 'counters');
  holds(['wiredTiger', 'rocksdb'].includes(status.storageEngine.name), EJSON.stringify(status.storageEngine));
  holds(status[status.storageEngine.name] !== undefined, 'no section of the engine');
  equal(shell.stats().db, 'shell');
  const figures = shell.many.stats();
  equal([figures.count, figures.nindexes], [1000, 2]);
  holds(shell.many.dataSize() > 0 && shell.many.storageSize() >= 0, 'sizes');
  equal(shell.many.validate().valid, true);
  holds(/^\d+\.\d+\.\d+/.test(db.version()), db.version());
  holds(db.hostInfo().system.numCores > 0, 'no cores');
  holds(db.adminCommand({ getLog: 'startupWarnings' }).ok === 1, 'no log');
  holds(db.serverCmdLineOpts().argv.length > 0, 'no command line');
});

check('shell-current-operations', () => {
  holds(db.currentOp({ $all: true }).inprog.length > 0, 'nothing runs');
  holds(db.getSiblingDB('admin').aggregate([{ $currentOp: { allUsers: true, idleConnections: true } }]).toArray().length > 0, 'nothing runs');
});

check('shell-profile', () => {
  equal(shell.getProfilingStatus().was, 0);
  shell.setProfilingLevel(2);
  shell.many.findOne({ _id: 7 });
  shell.setProfilingLevel(0);
  holds(shell.system.profile.countDocuments({ ns: 'shell.many', op: 'query' }) >= 1, 'no profile');
});

check('shell-create-drop', () => {
  shell.createCollection('capped', { capped: true, size: 4096 });
  holds(shell.capped.isCapped(), 'not capped');
  shell.createView('view', 'many', [{ $match: { group: 1 } }]);
  equal(shell.view.countDocuments(), 100);
  equal(shell.view.drop(), true);
  equal(shell.capped.renameCollection('renamed').ok, 1);
  equal(shell.renamed.drop(), true);
  equal(shell.runCommand({ collMod: 'many', validator: { group: { $lt: 100 } } }).ok, 1);
  fails(121, () => shell.many.insertOne({ group: 100 }));
});

check('shell-bulk', () => {
  const bulk = shell.bulk.initializeUnorderedBulkOp();
  bulk.insert({ _id: 1 });
  bulk.insert({ _id: 2 });
  bulk.find({ _id: 1 }).updateOne({ $set: { a: 1 } });
  const result = bulk.execute();
  equal([result.insertedCount, result.matchedCount], [2, 1]);
});

check('shell-parameters', () => {
  const was = db.adminCommand({ getParameter: 1, cursorTimeoutMillis: 1 }).cursorTimeoutMillis;
  equal(db.adminCommand({ setParameter: 1, cursorTimeoutMillis: 500000 }).was, was);
  holds(Object.keys(db.adminCommand({ getParameter: '*' })).length > 10, 'few parameters');
});

check('shell-errors', () => {
  fails(59, () => db.runCommand({ noSuchCommand: 1 }));
  fails(26, () => shell.absent.renameCollection('anything'));
  fails(2, () => shell.many.find({ a: { $nothing: 1 } }).toArray());
});

check('shell-drop-database', () => {
  equal(shell.dropDatabase().dropped, 'shell');
  equal(shell.getCollectionNames(), []);
});

finish();
