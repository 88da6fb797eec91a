// The first user, made from mongosh, and what others then may do.

/* global equal, fails, check, finish */

const admin = db.getSiblingDB('admin');
const shell = db.getSiblingDB('shell');

check('shell-auth', () => {
  fails(13, () => shell.things.insertOne({}));
  equal(admin.createUser({ user: 'admin', pwd: 'secret', roles: ['root'] }).ok, 1);
  fails(18, () => admin.auth('admin', 'wrong'));
  equal(admin.auth('admin', 'secret').ok, 1);
  shell.things.insertOne({ _id: 1 });
});

check('shell-users', () => {
  shell.createUser({ user: 'reader', pwd: 'read', roles: ['read'] });
  equal(shell.getUsers().users.map((one) => one.user), ['reader']);
  equal(shell.getUser('reader').roles, [{ role: 'read', db: 'shell' }]);
  shell.updateUser('reader', { roles: ['readWrite'] });
  equal(shell.getUser('reader').roles[0].role, 'readWrite');
  shell.grantRolesToUser('reader', ['dbAdmin']);
  shell.revokeRolesFromUser('reader', ['readWrite', 'dbAdmin']);
  equal(shell.getUser('reader').roles, []);
  equal(shell.dropUser('reader').ok, 1);
});

check('shell-logout', () => {
  equal(admin.logout().ok, 1);
  fails(13, () => shell.things.insertOne({}));
});

finish();
