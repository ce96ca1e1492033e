//! The machine, operation by operation.

use super::{Made, Node};
use std::ops::Range;

/// Runs a program.
pub(super) struct Machine<'a> {
    data: &'a [u8],
    /// The next byte.
    pub(super) at: usize,
    /// What it has made.
    pub(super) nodes: Vec<Node>,
    stack: Vec<usize>,
    // Lengths of the stack.
    marks: Vec<usize>,
    memo: Vec<usize>,
}

pub(super) type Outcome<T = ()> = Result<T, &'static str>;

impl<'a> Machine<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Machine {
            data,
            at: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
        }
    }

    /// To its end; returns the object that it leaves.
    ///
    /// # Errors
    /// What stands in its way, of which `at` says where.
    pub(super) fn run(&mut self) -> Outcome<usize> {
        loop {
            let operation = self.bytes(1)?[0];
            if operation == b'.' {
                return self.pop();
            }
            self.step(operation)?;
        }
    }

    fn step(&mut self, operation: u8) -> Outcome {
        match operation {
            // The protocol, and the length of a frame.
            0x80 => self.bytes(1).map(drop),
            0x95 => self.bytes(8).map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'1' => self.marked().map(drop),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'J' => {
                let int = self.array().map(i32::from_le_bytes)?;
                self.push(Node::Int(int.into()))
            }
            b'K' | b'M' => {
                let int = self.length(if operation == b'K' { 1 } else { 2 })?;
                self.push(Node::Int(int as i64))
            }
            0x8a => self.long(),
            b'G' => {
                let float = self.array().map(f64::from_be_bytes)?;
                self.push(Node::Float(float))
            }
            0x8c => self.text(1),
            b'X' => self.text(4),
            0x8d => self.text(8),
            b'C' | b'U' => self.other(1),
            b'B' | b'T' => self.other(4),
            0x8e | 0x96 => self.other(8),
            b']' | b')' | 0x8f => self.push(Node::List(Vec::new())),
            0x85..=0x87 => {
                let items = (0x85..=operation).map(|_| self.pop());
                let mut items = items.collect::<Outcome<Vec<_>>>()?;
                items.reverse();
                self.push(Node::List(items))
            }
            b't' | b'l' | 0x91 => {
                let items = self.marked()?;
                self.push(Node::List(items))
            }
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])
            }
            b'e' | 0x90 => {
                let items = self.marked()?;
                self.append(&items)
            }
            b'}' => self.push(Node::Dict(Vec::new())),
            b'd' => {
                let items = pairs(&self.marked()?)?;
                self.push(Node::Dict(items))
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(vec![(key, value)])
            }
            b'u' => {
                let items = pairs(&self.marked()?)?;
                self.set(items)
            }
            b'q' | b'r' => {
                let index = self.length(if operation == b'q' { 1 } else { 4 })?;
                self.memoize(index)
            }
            0x94 => self.memoize(self.memo.len()),
            b'h' | b'j' => {
                let index = self.length(if operation == b'h' { 1 } else { 4 })?;
                let known = self.memo.get(index).copied();
                self.stack.push(known.ok_or("what was never memorised")?);
                Ok(())
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Node::Global { module, name })
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (module, name) = (self.text_of(module)?, self.text_of(name)?);
                self.push(Node::Global { module, name })
            }
            b'R' | 0x81 => self.make(),
            // Arguments by name, which nothing here reads.
            0x92 => {
                self.pop()?;
                self.make()
            }
            b'b' => self.build(),
            b'Q' => {
                let name = self.pop()?;
                self.push(Node::Persistent(name))
            }
            _ => Err("an operation that is not for data"),
        }
    }

    fn bytes(&mut self, count: usize) -> Outcome<&[u8]> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.data.len());
        let end = end.ok_or("the end of the data")?;
        let start = std::mem::replace(&mut self.at, end);
        Ok(&self.data[start..end])
    }

    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        Ok(self.bytes(N)?.try_into().expect("as many bytes"))
    }

    // A whole number without a sign, of this many bytes; the lowest comes first.
    fn length(&mut self, bytes: usize) -> Outcome<usize> {
        let mut all = [0; 8];
        all[..bytes].copy_from_slice(self.bytes(bytes)?);
        usize::try_from(u64::from_le_bytes(all)).map_err(|_| "a length beyond this machine's")
    }

    // A text up to the end of its line.
    fn line(&mut self) -> Outcome<Range<usize>> {
        let rest = &self.data[self.at..];
        let len = rest.iter().position(|byte| *byte == b'\n');
        let text = self.text_range(len.ok_or("a line that does not end")?)?;
        self.at += 1;
        Ok(text)
    }

    fn text_range(&mut self, count: usize) -> Outcome<Range<usize>> {
        let text = self.bytes(count)?;
        std::str::from_utf8(text).map_err(|_| NO_TEXT)?;
        Ok(self.at - count..self.at)
    }

    fn long(&mut self) -> Outcome {
        let count = self.length(1)?;
        let bytes = self.bytes(count)?;
        let Some(&last) = bytes.last().filter(|_| count <= 8) else {
            let node = if count == 0 {
                Node::Int(0)
            } else {
                Node::Other
            };
            return self.push(node);
        };
        let mut all = [if last & 0x80 == 0 { 0 } else { 0xff }; 8];
        all[..count].copy_from_slice(bytes);
        self.push(Node::Int(i64::from_le_bytes(all)))
    }

    fn text(&mut self, bytes: usize) -> Outcome {
        let count = self.length(bytes)?;
        let text = self.text_range(count)?;
        self.push(Node::Text(text))
    }

    fn other(&mut self, bytes: usize) -> Outcome {
        let count = self.length(bytes)?;
        self.bytes(count)?;
        self.push(Node::Other)
    }

    fn text_of(&self, node: usize) -> Outcome<Range<usize>> {
        match &self.nodes[node] {
            Node::Text(range) => Ok(range.clone()),
            _ => Err(NO_TEXT),
        }
    }

    fn push(&mut self, node: Node) -> Outcome {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
        Ok(())
    }

    // Nothing below the last mark.
    fn pop(&mut self) -> Outcome<usize> {
        self.top()?;
        self.stack.pop().ok_or(SHORT)
    }

    fn top(&self) -> Outcome<usize> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.last().filter(|_| self.stack.len() > floor);
        top.copied().ok_or(SHORT)
    }

    // What lies above the last mark.
    fn marked(&mut self) -> Outcome<Vec<usize>> {
        let mark = self.marks.pop().ok_or("a mark that was never set")?;
        Ok(self.stack.split_off(mark))
    }

    fn append(&mut self, items: &[usize]) -> Outcome {
        let list = self.top()?;
        match &mut self.nodes[list] {
            Node::List(own) => own.extend_from_slice(items),
            // A list of a class of its own, whose elements nobody reads.
            Node::Made(_) => {}
            _ => return Err("elements of what is no list"),
        }
        Ok(())
    }

    fn set(&mut self, items: Vec<(usize, usize)>) -> Outcome {
        let dict = self.top()?;
        match &mut self.nodes[dict] {
            Node::Dict(own) => own.extend(items),
            Node::Made(made) => made.items.extend(items),
            _ => return Err("keys of what is no dict"),
        }
        Ok(())
    }

    fn memoize(&mut self, index: usize) -> Outcome {
        let top = self.top()?;
        // Python numbers them in turn.
        if index > self.memo.len() {
            return Err("a place in the memory out of turn");
        }
        match index == self.memo.len() {
            true => self.memo.push(top),
            false => self.memo[index] = top,
        }
        Ok(())
    }

    fn make(&mut self) -> Outcome {
        let (arguments, of) = (self.pop()?, self.pop()?);
        self.push(Node::Made(Box::new(Made {
            of,
            arguments,
            state: None,
            items: Vec::new(),
        })))
    }

    fn build(&mut self) -> Outcome {
        let value = self.pop()?;
        let object = self.top()?;
        match &mut self.nodes[object] {
            Node::Made(made) => made.state = Some(value),
            _ => return Err("attributes of what is no object"),
        }
        Ok(())
    }
}

const SHORT: &str = "too few objects on the stack";
const NO_TEXT: &str = "bytes that are no text";

fn pairs(items: &[usize]) -> Outcome<Vec<(usize, usize)>> {
    let (pairs, rest) = items.as_chunks::<2>();
    match rest.is_empty() {
        true => Ok(pairs.iter().map(|&[key, value]| (key, value)).collect()),
        false => Err("a key without a value"),
    }
}
