//! Pickled objects of Python, read as data: nothing that they name is looked up or called.
//!
//! Python writes an object as a program for a machine with a stack. Here are the operations that its protocols 2 to 5 use for numbers,
//! texts, collections, and objects of classes; others are refused. A program makes at most one node per byte, and texts stay where they
//! lie in it, so memory is bounded by its length. Nodes refer to each other by number, in circles perhaps, and many may refer to one: what
//! is made of them has bounds of its own.
//!
//! # Source
//! `Lib/pickletools.py` of Python 3, which documents every operation.

mod machine;
#[cfg(test)]
mod tests;

use machine::Machine;
use serde_json::Value;
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
    /// A class or function: two texts.
    Global {
        module: Range<usize>,
        name: Range<usize>,
    },
    Made(Box<Made>),
    /// What the writer has stored elsewhere, by this name.
    Persistent(usize),
}

/// What a class or function makes of arguments.
#[derive(Debug)]
struct Made {
    of: usize,
    arguments: usize,
    // Its attributes.
    state: Option<usize>,
    // Its elements, if it is a dict.
    items: Vec<(usize, usize)>,
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

    fn text(&self, range: &Range<usize>) -> &str {
        std::str::from_utf8(&self.data[range.clone()]).expect("checked when it was read")
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
            Node::Text(range) => Some(self.pickle.text(range)),
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
    pub(super) fn pairs(self) -> Option<impl ExactSizeIterator<Item = (Object<'a>, Object<'a>)>> {
        let items = match self.node() {
            Node::Dict(items) => Some(items),
            Node::Made(made) => Some(&made.items),
            _ => None,
        };
        let object = move |node: usize| self.pickle.at(node);
        Some(
            items?
                .iter()
                .map(move |&(key, value)| (object(key), object(value))),
        )
    }

    /// The value of a dict for a text.
    pub(super) fn value(self, key: &str) -> Option<Object<'a>> {
        let mut pairs = self.pairs()?;
        pairs.find_map(|(own, value)| (own.text() == Some(key)).then_some(value))
    }

    /// The module and the name of a class or function.
    pub(super) fn global(self) -> Option<(&'a str, &'a str)> {
        match self.node() {
            Node::Global { module, name } => {
                Some((self.pickle.text(module), self.pickle.text(name)))
            }
            _ => None,
        }
    }

    /// The arguments of what this class or function makes.
    pub(super) fn made_by(self, module: &str, name: &str) -> Option<Object<'a>> {
        match self.node() {
            Node::Made(made) => (self.pickle.at(made.of).global() == Some((module, name)))
                .then(|| self.pickle.at(made.arguments)),
            _ => None,
        }
    }

    /// The attributes of an object of a class: a dict, or what its class keeps in their place.
    pub(super) fn state(self) -> Option<Object<'a>> {
        match self.node() {
            Node::Made(made) => Some(self.pickle.at(made.state?)),
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

    /// As JSON: None, numbers, texts, and short lists of these. Of anything else, a word that says what it is.
    pub(super) fn json(self) -> Value {
        match self.node() {
            Node::List(items) if items.len() <= MOST_LISTED => items
                .iter()
                .map(|item| self.pickle.at(*item).simple())
                .collect(),
            _ => self.simple(),
        }
    }

    fn simple(self) -> Value {
        match self.node() {
            Node::None => Value::Null,
            Node::Bool(flag) => (*flag).into(),
            Node::Int(int) => (*int).into(),
            Node::Float(float) => (*float).into(),
            Node::Text(range) if range.len() <= MOST_TEXT => self.pickle.text(range).into(),
            Node::Text(range) => format!("a text of {} bytes", range.len()).into(),
            Node::List(items) => format!("a list of {}", items.len()).into(),
            Node::Global { .. } => "a class or function".into(),
            Node::Other | Node::Dict(_) | Node::Made(_) | Node::Persistent(_) => "an object".into(),
        }
    }
}

/// The longest list and text that JSON is made of.
const MOST_LISTED: usize = 16;
const MOST_TEXT: usize = 256;
