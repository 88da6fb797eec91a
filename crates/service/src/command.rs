//! The table of a process's commands: finds the facts on a command by its name, and the function that runs it.
//!
//! Each process has its own list of commands, and its own facts on them apart from their names: the class in which it counts
//! them (`K`) and its rules for them (`R`).

use std::collections::HashMap;

use fathom_wire::{Code, Failure};

use crate::Result;

/// The table's row of a command, without its function.
pub struct Command<K, R = ()> {
    /// The name in MongoDB's own spelling.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// The class in which it is counted.
    pub kind: K,
    /// Whether it may run against the database `admin` only.
    pub admin_only: bool,
    /// Whether its arguments or its reply hold secrets, which are never logged or compressed.
    pub secret: bool,
    /// Further facts that the process needs.
    pub rules: R,
    /// One sentence for `listCommands`.
    pub help: &'static str,
    row: usize,
}

impl<K, R> Command<K, R> {
    /// A command for any database, without secrets.
    pub fn new(
        name: &'static str,
        aliases: &'static [&'static str],
        kind: K,
        rules: R,
        help: &'static str,
    ) -> Command<K, R> {
        Command { name, aliases, kind, admin_only: false, secret: false, rules, help, row: 0 }
    }

    /// Its position in the table.
    pub fn row(&self) -> usize {
        self.row
    }

    /// Refuses a database against which the command may not run.
    pub fn check_database(&self, database: &str) -> Result<()> {
        if self.admin_only && database != "admin" {
            let what = format!("{} may only be run against the admin database.", self.name);
            return Err(Failure::new(Code::Unauthorized, what));
        }
        Ok(())
    }
}

impl<K, R> std::fmt::Debug for Command<K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All commands of a process, by row and by name (`CommandRegistry` of mongod and mongos).
#[derive(Debug)]
pub struct CommandRegistry<K, R = ()> {
    rows: Vec<Command<K, R>>,
    /// The row of each name and alias.
    by_name: HashMap<&'static str, usize>,
}

impl<K, R> CommandRegistry<K, R> {
    /// The commands in the order of their rows.
    fn new(mut rows: Vec<Command<K, R>>) -> CommandRegistry<K, R> {
        let mut by_name = HashMap::new();
        for (row, command) in rows.iter_mut().enumerate() {
            command.row = row;
            by_name.insert(command.name, row);
            by_name.extend(command.aliases.iter().map(|alias| (*alias, row)));
        }
        CommandRegistry { rows, by_name }
    }

    /// All commands, in the order of their rows.
    pub fn all(&self) -> &[Command<K, R>] {
        &self.rows
    }

    /// The command of a name or alias.
    pub fn find(&self, name: &str) -> Option<&Command<K, R>> {
        self.by_name.get(name).and_then(|row| self.rows.get(*row))
    }
}

/// The commands with their functions (`F`). The registry is separate, since the arguments of a function include the registry.
pub struct CommandTable<K, R, F> {
    registry: CommandRegistry<K, R>,
    /// In the order of the rows.
    functions: Vec<F>,
}

impl<K, R, F: Copy> CommandTable<K, R, F> {
    /// Makes the table of these rows.
    pub fn new(rows: Vec<(Command<K, R>, F)>) -> CommandTable<K, R, F> {
        let (commands, functions): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        CommandTable { registry: CommandRegistry::new(commands), functions }
    }

    /// The commands without their functions.
    pub fn registry(&self) -> &CommandRegistry<K, R> {
        &self.registry
    }

    /// The function of a command.
    pub fn function(&self, command: &Command<K, R>) -> Result<F> {
        let function = self.functions.get(command.row).copied();
        function.ok_or_else(|| Failure::new(Code::InternalError, "the command has no function"))
    }
}

impl<K, R, F> std::fmt::Debug for CommandTable<K, R, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.registry.rows).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_each_of_its_names_and_keeps_its_function() {
        let mut second = Command::new("setParameter", &[], 'c', (), "changes parameters");
        second.admin_only = true;
        let table = CommandTable::new(vec![
            (Command::new("buildInfo", &["buildinfo"], 'c', (), "the version"), 1),
            (second, 2),
        ]);
        let registry = table.registry();
        let run = |name: &str| registry.find(name).map(|command| table.function(command).unwrap());
        assert_eq!((run("buildInfo"), run("buildinfo"), run("setParameter")), (Some(1), Some(1), Some(2)));
        assert_eq!(run("BUILDINFO"), None);
        let [first, second] = registry.all() else { panic!("{table:?}") };
        assert_eq!((first.row(), second.row()), (0, 1));
        assert!(first.check_database("a").is_ok() && second.check_database("admin").is_ok());
        assert_eq!(second.check_database("a").unwrap_err().code(), Code::Unauthorized);
    }
}
