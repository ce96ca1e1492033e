//! Pickled objects of Python, read as data: nothing that they name is looked up or called.
//!
//! Python writes an object as a program for a machine with a stack. Here are the operations that its protocols 2 to 5 use for numbers,
//! texts, collections, and objects of classes; others are refused. A program makes at most one node per byte, so memory is bounded by
//! its length. Nodes refer to each other by number, and may do so in circles: nothing here follows them of its own accord.
//!
//! # Source
//! `Lib/pickletools.py` of Python 3, which documents every operation.

mod machine;
#[cfg(test)]
mod tests;

use machine::Machine;
use std::ops::Range;

/// The machine's memory after a program has ended.
#[derive(Debug)]
pub(super) struct Pickle {
    data: Vec<u8>,
    nodes: Vec<Node>,
    top: usize,
}

#[derive(Debug)]
enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Where it lies in the data, which is UTF-8 there.
    Text(Range<usize>),
    /// Of bytes, of long integers: what nobody reads.
    Other,
    /// A tuple, list or set.
    List(Vec<usize>),
    /// Keys and values.
    Dict(Vec<(usize, usize)>),
    /// A class or function, as `module.name`.
    Global(String),
    /// What that makes of arguments; its attributes, and its elements if it is a dict.
    Made {
        of: usize,
        arguments: usize,
        state: Option<usize>,
        items: Vec<(usize, usize)>,
    },
    /// What the writer has stored elsewhere, by this name.
    Persistent(usize),
}

impl Pickle {
    /// Runs the program.
    ///
    /// # Errors
    /// What is wrong, and at which byte.
    pub(super) fn read(data: Vec<u8>) -> Result<Pickle, String> {
        let mut machine = Machine::new(&data);
        let ran = machine.run();
        let (at, nodes) = (machine.at, machine.nodes);
        match ran {
            Ok(top) => Ok(Pickle { data, nodes, top }),
            Err(fault) => Err(format!("{fault} at byte {at}")),
        }
    }

    /// The object.
    pub(super) fn top(&self) -> Object<'_> {
        self.at(self.top)
    }

    fn at(&self, node: usize) -> Object<'_> {
        Object { pickle: self, node }
    }
}

/// An object of a pickle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'a> {
    pickle: &'a Pickle,
    node: usize,
}

impl<'a> Object<'a> {
    fn node(self) -> &'a Node {
        &self.pickle.nodes[self.node]
    }

    /// Whether it is None.
    pub(super) fn is_none(self) -> bool {
        matches!(self.node(), Node::None)
    }

    /// A text.
    pub(super) fn text(self) -> Option<&'a str> {
        match self.node() {
            Node::Text(range) => std::str::from_utf8(&self.pickle.data[range.clone()]).ok(),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub(super) fn size(self) -> Option<usize> {
        match self.node() {
            Node::Int(int) => usize::try_from(*int).ok(),
            _ => None,
        }
    }

    /// The elements of a tuple, list or set.
    pub(super) fn items(self) -> Option<impl ExactSizeIterator<Item = Object<'a>>> {
        match self.node() {
            Node::List(items) => Some(items.iter().map(move |item| self.pickle.at(*item))),
            _ => None,
        }
    }

    /// An element of a tuple or list.
    pub(super) fn item(self, index: usize) -> Option<Object<'a>> {
        self.items()?.nth(index)
    }

    /// The keys and values of a dict, of a plain one or of a class of its own.
    pub(super) fn pairs(self) -> Option<impl Iterator<Item = (Object<'a>, Object<'a>)>> {
        match self.node() {
            Node::Dict(items) | Node::Made { items, .. } => {
                let object = move |node: usize| self.pickle.at(node);
                Some(
                    items
                        .iter()
                        .map(move |&(key, value)| (object(key), object(value))),
                )
            }
            _ => None,
        }
    }

    /// The value of a dict for a text.
    pub(super) fn value(self, key: &str) -> Option<Object<'a>> {
        let mut pairs = self.pairs()?;
        pairs.find_map(|(own, value)| (own.text() == Some(key)).then_some(value))
    }

    /// The name of a class or function.
    pub(super) fn global(self) -> Option<&'a str> {
        match self.node() {
            Node::Global(name) => Some(name),
            _ => None,
        }
    }

    /// The arguments of what this class or function makes.
    pub(super) fn made_by(self, global: &str) -> Option<Object<'a>> {
        match self.node() {
            Node::Made { of, arguments, .. } if self.pickle.at(*of).global() == Some(global) => {
                Some(self.pickle.at(*arguments))
            }
            _ => None,
        }
    }

    /// The attributes of an object of a class: a dict, or what its class keeps in their place.
    pub(super) fn state(self) -> Option<Object<'a>> {
        match self.node() {
            Node::Made { state, .. } => Some(self.pickle.at((*state)?)),
            _ => None,
        }
    }

    /// An attribute.
    pub(super) fn attribute(self, name: &str) -> Option<Object<'a>> {
        self.state()?.value(name)
    }

    /// The name of what is stored elsewhere.
    pub(super) fn persistent(self) -> Option<Object<'a>> {
        match self.node() {
            Node::Persistent(name) => Some(self.pickle.at(*name)),
            _ => None,
        }
    }

    /// As JSON, as far as that has it: None, numbers, texts, the names of classes and functions, and lists of these.
    pub(super) fn json(self) -> Option<serde_json::Value> {
        match self.node() {
            Node::List(items) => {
                let items = items.iter().map(|item| self.pickle.at(*item).simple());
                Some(serde_json::Value::Array(items.collect::<Option<_>>()?))
            }
            _ => self.simple(),
        }
    }

    fn simple(self) -> Option<serde_json::Value> {
        match self.node() {
            Node::None => Some(serde_json::Value::Null),
            Node::Bool(flag) => Some((*flag).into()),
            Node::Int(int) => Some((*int).into()),
            Node::Float(float) => Some((*float).into()),
            Node::Text(_) => Some(self.text()?.into()),
            Node::Global(name) => Some(name.as_str().into()),
            _ => None,
        }
    }
}
