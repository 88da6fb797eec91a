//! The tree of names that a projection is.
use super::children::Children;
use super::position::Slice;
use crate::{Code, Expression, Failure, Filter, Result};

/// The deepest path.
const DEPTH_MAX: usize = 200;

/// The children of one level.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    children: Children,
    /// The names that are put behind the document's own fields, as the projection lists them.
    pub(super) added: Vec<String>,
    /// Whether all children are [`Child::Named`], so that a walk may end when it has seen them.
    pub(super) plain: bool,
}

/// What a name stands for. The large ones are boxed: a projection of names, which most are, then takes little memory, and
/// every find with one makes its tree anew.
#[derive(Clone, Debug)]
pub(super) enum Child {
    /// Kept by an inclusion, left out by an exclusion.
    Named,
    Nested(Box<Node>),
    Computed(Box<Expression>),
    Slice(Box<Slice>),
    /// The first element of the array that the filter, which names the field, matches.
    First(Box<Filter>),
}

impl Child {
    /// Whether it makes a value where the document has none.
    fn is_added(&self) -> bool {
        matches!(self, Child::Computed(_) | Child::First(_))
    }
}

impl Node {
    pub(super) fn new() -> Node {
        Node { plain: true, ..Node::default() }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Child> {
        self.children.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.children.remove(name.as_bytes());
    }

    /// Whether it makes values where the document has none.
    pub(super) fn adds(&self) -> bool {
        !self.added.is_empty()
    }

    /// Adds the name of a top-level field; false if it is there or is no plain name.
    pub(super) fn name(&mut self, name: &[u8]) -> bool {
        if name.is_empty() || name.iter().any(|byte| matches!(byte, b'.' | b'$')) {
            return false;
        }
        self.children.add(name, Child::Named)
    }

    /// Puts a child at a path, each level of which is made where it is missing.
    pub(super) fn insert(&mut self, path: &str, child: Child) -> Result<()> {
        self.insert_parts(path, path, child)
    }

    fn insert_parts(&mut self, path: &str, rest: &str, child: Child) -> Result<()> {
        let Some((part, deeper)) = rest.split_once('.') else {
            let (is_added, is_plain) = (child.is_added(), matches!(child, Child::Named));
            if !self.children.add(rest.as_bytes(), child) {
                return Err(Failure::new(Code(31250), format!("Path collision at {path}")));
            }
            if is_added {
                self.added.push(rest.to_string());
            }
            self.plain &= is_plain;
            return Ok(());
        };
        self.plain = false;
        if child.is_added() && !self.added.iter().any(|name| name == part) {
            self.added.push(part.to_string());
        }
        if self.children.get(part.as_bytes()).is_none() {
            self.children.add(part.as_bytes(), Child::Nested(Box::new(Node::new())));
        }
        match self.children.get_mut(part.as_bytes()) {
            Some(Child::Nested(node)) => node.insert_parts(path, deeper, child),
            _ => {
                let message = format!("Path collision at {path} remaining portion {deeper}");
                Err(Failure::new(Code(31249), message))
            }
        }
    }

    /// The paths, if there is nothing but names.
    pub(super) fn plain_paths(&self, prefix: &str, paths: &mut Vec<String>) -> bool {
        self.children.all(|name, child| {
            let path = format!("{prefix}{}", String::from_utf8_lossy(name));
            match child {
                Child::Named => {
                    paths.push(path);
                    true
                }
                Child::Nested(node) => node.plain_paths(&format!("{path}."), paths),
                _ => false,
            }
        })
    }
}

/// Checks a path as MongoDB's field paths are.
pub(super) fn check_path(path: &str) -> Result<()> {
    if !path.is_empty() && !path.bytes().any(|byte| matches!(byte, b'.' | b'$')) {
        return Ok(());
    }
    if path.is_empty() {
        return Err(Failure::new(Code(40352), "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Failure::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    for (depth, part) in path.split('.').enumerate() {
        if part.is_empty() {
            return Err(Failure::new(Code(15998), "FieldPath field names may not be empty strings."));
        }
        if part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db") {
            return Err(Failure::new(Code(16410), "FieldPath field names may not start with '$'."));
        }
        if depth >= DEPTH_MAX {
            return Err(Failure::new(Code::Overflow, "FieldPath is too long"));
        }
    }
    Ok(())
}
