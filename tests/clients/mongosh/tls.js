// Over TLS: the way in is what matters.

/* global equal, check, finish */

check('shell-tls', () => {
  db.getSiblingDB('shell').secret.insertOne({ _id: 1 });
  equal(db.getSiblingDB('shell').secret.find().toArray(), [{ _id: 1 }]);
});

finish();
