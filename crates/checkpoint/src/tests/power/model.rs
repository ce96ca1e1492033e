//! A file system of which only what was synced is sure to survive a power cut.
//!
//! A file's bytes survive up to its last sync, and a folder's names as of its last sync. Of later bytes any sectors survive, and
//! of later names any prefix of the changes, or any of them, independently in each folder.

use super::random::Random;
use std::{collections::BTreeMap, fs, path::Path};

/// A disk writes a sector as a unit.
const SECTOR_BYTES: usize = 512;
const ROOT: usize = 0;

/// The index of a file or folder, whatever names it has.
pub type Node = usize;

/// Paths are relative to the root.
#[derive(Debug)]
pub struct Model {
    nodes: Vec<Content>,
}

#[derive(Debug)]
enum Content {
    File(FileContent),
    Folder(FolderContent),
}

#[derive(Debug, Default)]
struct FileContent {
    bytes: Vec<u8>,
    num_synced: usize,
    /// A refused sync drops bytes that a later one does not know of.
    is_spoilt: bool,
}

#[derive(Debug, Default)]
struct FolderContent {
    names: BTreeMap<String, Node>,
    synced: BTreeMap<String, Node>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Add(String, Node),
    Remove(String, Node),
    Rename(String, String, Node),
}

impl Model {
    /// All that is in a real folder, as after a start of the machine: synced.
    pub fn of(real: &Path) -> Model {
        let mut model = Model { nodes: Vec::new() };
        model.scan(real);
        model
    }

    fn scan(&mut self, real: &Path) -> Node {
        let node = self.nodes.len();
        if real.is_file() {
            let bytes = fs::read(real).unwrap();
            let num_synced = bytes.len();
            self.nodes.push(Content::File(FileContent {
                bytes,
                num_synced,
                is_spoilt: false,
            }));
            return node;
        }
        self.nodes.push(Content::Folder(FolderContent::default()));
        let names: BTreeMap<_, _> = crate::tests::names(real)
            .into_iter()
            .map(|name| (name.clone(), self.scan(&real.join(name))))
            .collect();
        let folder = self.folder(node);
        (folder.names, folder.synced) = (names.clone(), names);
        node
    }

    fn find(&mut self, path: &Path) -> Node {
        path.iter().fold(ROOT, |node, name| {
            self.folder(node).names[name.to_str().unwrap()]
        })
    }

    fn folder(&mut self, node: Node) -> &mut FolderContent {
        match &mut self.nodes[node] {
            Content::Folder(folder) => folder,
            Content::File(_) => panic!("a bug: a file used as a folder"),
        }
    }

    fn file(&mut self, node: Node) -> &mut FileContent {
        match &mut self.nodes[node] {
            Content::File(file) => file,
            Content::Folder(_) => panic!("a bug: a folder used as a file"),
        }
    }

    fn change(&mut self, folder: &Path, change: Change) {
        let folder = self.find(folder);
        let folder = self.folder(folder);
        change.apply(&mut folder.names);
        folder.changes.push(change);
    }

    fn add(&mut self, path: &Path, content: Content) -> Node {
        let node = self.nodes.len();
        self.nodes.push(content);
        let (folder, name) = split(path);
        self.change(folder, Change::Add(name, node));
        node
    }

    pub fn add_file(&mut self, path: &Path) -> Node {
        self.add(path, Content::File(FileContent::default()))
    }

    pub fn add_folder(&mut self, path: &Path) {
        self.add(path, Content::Folder(FolderContent::default()));
    }

    /// Gives a file a second name.
    pub fn link(&mut self, file: &Path, name: &Path) {
        let node = self.find(file);
        let (folder, name) = split(name);
        self.change(folder, Change::Add(name, node));
    }

    pub fn append(&mut self, file: Node, bytes: &[u8]) {
        self.file(file).bytes.extend(bytes);
    }

    pub fn sync_file(&mut self, file: Node) {
        let file = self.file(file);
        if !file.is_spoilt {
            file.num_synced = file.bytes.len();
        }
    }

    pub fn spoil(&mut self, file: Node) {
        self.file(file).is_spoilt = true;
    }

    /// Removes a file or an empty folder.
    pub fn remove(&mut self, path: &Path) {
        let node = self.find(path);
        let (folder, name) = split(path);
        self.change(folder, Change::Remove(name, node));
    }

    /// Renames within a folder.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        let node = self.find(from);
        let ((folder, from), (other, to)) = (split(from), split(to));
        assert_eq!(folder, other, "a bug: renamed into another folder");
        self.change(folder, Change::Rename(from, to, node));
    }

    pub fn sync_folder(&mut self, path: &Path) {
        let folder = self.find(path);
        let folder = self.folder(folder);
        folder.synced = folder.names.clone();
        folder.changes.clear();
    }

    /// Writes what a power cut could leave into an empty folder.
    pub fn after_cut(&self, random: &mut Random, into: &Path) {
        let in_order = random.below(2) == 0;
        self.settle(ROOT, in_order, random, into);
    }

    fn settle(&self, node: Node, in_order: bool, random: &mut Random, at: &Path) {
        match &self.nodes[node] {
            Content::File(file) => fs::write(at, file.survivors(random)).unwrap(),
            Content::Folder(folder) => {
                fs::create_dir_all(at).unwrap();
                for (name, node) in folder.survivors(in_order, random) {
                    self.settle(node, in_order, random, &at.join(name));
                }
            }
        }
    }
}

impl FileContent {
    fn survivors(&self, random: &mut Random) -> Vec<u8> {
        let length = self.num_synced + random.below(self.bytes.len() - self.num_synced + 1);
        let mut left = self.bytes[..length].to_vec();
        let mut start = self.num_synced;
        while start < length {
            let end = ((start / SECTOR_BYTES + 1) * SECTOR_BYTES).min(length);
            match random.below(3) {
                0 => {}
                1 => left[start..end].fill(0),
                // What the sector held for another file.
                _ => left[start..end].fill_with(|| random.below(256) as u8),
            }
            start = end;
        }
        left
    }
}

impl FolderContent {
    fn survivors(&self, in_order: bool, random: &mut Random) -> BTreeMap<String, Node> {
        let mut names = self.synced.clone();
        let num_first = random.below(self.changes.len() + 1);
        for (index, change) in self.changes.iter().enumerate() {
            let survives = match in_order {
                true => index < num_first,
                false => random.below(2) == 0,
            };
            if survives {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        let mut take = |name: &String, node: &Node| {
            if names.get(name) == Some(node) {
                names.remove(name);
            }
        };
        match self {
            Change::Remove(name, node) => take(name, node),
            Change::Rename(from, to, node) => {
                take(from, node);
                names.insert(to.clone(), *node);
            }
            Change::Add(name, node) => {
                names.insert(name.clone(), *node);
            }
        }
    }
}

fn split(path: &Path) -> (&Path, String) {
    let name = path.file_name().unwrap().to_str().unwrap();
    (path.parent().unwrap(), name.to_owned())
}
