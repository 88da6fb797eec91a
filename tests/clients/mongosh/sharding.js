// What a person types into mongosh on a sharded cluster.

/* global equal, holds, fails, check, finish, SHARDS */

const things = db.getSiblingDB('cluster').things;

check('sharding-add', () => {
  equal(sh.addShard(SHARDS[0]).shardAdded, 'shard0000');
  equal(sh.addShard(SHARDS[1]).shardAdded, 'shard0001');
  equal(db.adminCommand({ listShards: 1 }).shards.map((one) => one._id), ['shard0000', 'shard0001']);
});

check('sharding-collections', () => {
  equal(sh.enableSharding('cluster').ok, 1);
  equal(sh.shardCollection('cluster.things', { k: 1 }).collectionsharded, 'cluster.things');
  equal(sh.shardCollection('cluster.hashed', { _id: 'hashed' }).collectionsharded, 'cluster.hashed');
});

check('sharding-chunks', () => {
  things.insertMany(Array.from({ length: 200 }, (_, k) => ({ _id: k, k })));
  equal(sh.splitAt('cluster.things', { k: 100 }).ok, 1);
  const there = db.getSiblingDB('config').chunks.findOne({ ns: 'cluster.things' }).shard;
  const other = there === 'shard0000' ? 'shard0001' : 'shard0000';
  equal(sh.moveChunk('cluster.things', { k: 150 }, other).ok, 1);
  equal(sh.splitFind('cluster.things', { k: 10 }).ok, 1);
  equal(things.countDocuments(), 200);
  equal(things.find({ k: { $gte: 95 } }).sort({ k: -1 }).limit(3).toArray().map((one) => one.k), [199, 198, 197]);
});

check('sharding-balancer', () => {
  sh.stopBalancer();
  equal(sh.getBalancerState(), false);
  sh.startBalancer();
  equal(sh.getBalancerState(), true);
  equal(sh.isBalancerRunning().ok, 1);
});

check('sharding-status', () => {
  const status = sh.status().value;
  equal(status.shards.length, 2);
  const found = status.databases.find((one) => one.database._id === 'cluster');
  holds(found.collections['cluster.things'].chunks.length === 3, `${JSON.stringify(found.collections)}`);
});

check('sharding-distribution', () => {
  holds(things.stats().sharded, 'not sharded');
  equal(things.stats().count, 200);
  equal(things.explain().find({ k: 5 }).finish().queryPlanner.winningPlan.stage, 'SINGLE_SHARD');
});

finish();
