//! Letters between hosts: bytes with an address, which whoever waits for them finds in a box.
//!
//! One communicator carries the letters of all exchanges and all notices. Any thread that waits empties it for all
//! threads, so no letter waits for the thread that it is meant for.

use crate::raw::{self, Comm, Fault, Request};
use crate::wait::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

/// Bytes in front of every letter: its address and its number there.
const HEAD: usize = 16;
/// MPI's tags are not needed: letters carry their own address.
const TAG: i32 = 0;
/// The address of notices, which no exchange has.
pub(crate) const NOTICES: u64 = 0;

/// Where a letter belongs: who sent it, the exchange, and its number there.
type Slot = (usize, u64, u64);

/// This process's post office.
#[derive(Debug)]
pub(crate) struct Post {
    comm: Comm,
    rank: usize,
    boxes: Mutex<Boxes>,
    // Letters whose bytes are still moving; whoever holds the lock moves them on.
    moving: Mutex<Moving>,
}

#[derive(Debug, Default)]
struct Boxes {
    letters: HashMap<Slot, Vec<u8>>,
    notices: VecDeque<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Moving {
    // The vectors are read by MPI until their request has ended.
    out: Vec<(Request, Vec<u8>)>,
    come: Vec<(Request, usize, Vec<u8>)>,
}

impl Post {
    /// The post office of `rank`, over a communicator that nothing else uses.
    pub(crate) fn new(comm: Comm, rank: usize) -> Post {
        Post {
            comm,
            rank,
            boxes: Mutex::default(),
            moving: Mutex::default(),
        }
    }

    /// Sends a letter; the receiver need not wait for it yet.
    ///
    /// # Errors
    /// MPI's, and a letter of 2 GiB or more.
    pub(crate) fn send(
        &self,
        to: usize,
        address: u64,
        number: u64,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        if to == self.rank {
            self.deliver(to, address, number, bytes.to_vec());
            return Ok(());
        }
        if i32::try_from(bytes.len() + HEAD).is_err() {
            let reason = format!(
                "{} bytes for the host exchange, which takes less than 2 GiB",
                bytes.len()
            );
            return Err(Fault {
                call: "MPI_Isend",
                code: -1,
                reason,
            });
        }
        let letter = [&address.to_le_bytes()[..], &number.to_le_bytes(), bytes].concat();
        // SAFETY: the vector is kept with its request, and its heap memory stays where it is.
        let request = unsafe { self.comm.send(letter.as_ptr(), letter.len(), to, TAG) }?;
        lock(&self.moving).out.push((request, letter));
        Ok(())
    }

    /// The letter for a slot, if it has come.
    pub(crate) fn take(&self, from: usize, address: u64, number: u64) -> Option<Vec<u8>> {
        lock(&self.boxes).letters.remove(&(from, address, number))
    }

    /// The next notice, and who sent it.
    pub(crate) fn take_notice(&self) -> Option<(usize, Vec<u8>)> {
        lock(&self.boxes).notices.pop_front()
    }

    /// Puts what has arrived into its boxes; whether anything had.
    ///
    /// # Errors
    /// MPI's.
    pub(crate) fn pump(&self) -> Result<bool, Fault> {
        let Ok(mut moving) = self.moving.try_lock() else {
            return Ok(false);
        };
        while let Some((from, bytes, request)) = self.comm.arrived()? {
            moving.come.push((request, from, bytes));
        }
        let Moving { out, come } = &mut *moving;
        swept(out, |(request, _)| request, drop)?;
        let mut any = false;
        swept(
            come,
            |(request, ..)| request,
            |(_, from, letter)| {
                any = true;
                self.open(from, letter);
            },
        )?;
        Ok(any)
    }

    fn open(&self, from: usize, mut letter: Vec<u8>) {
        let word = |at: usize| {
            letter
                .get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_le_bytes)
        };
        if let (Some(address), Some(number)) = (word(0), word(8)) {
            letter.drain(..HEAD);
            self.deliver(from, address, number, letter);
        }
    }

    fn deliver(&self, from: usize, address: u64, number: u64, bytes: Vec<u8>) {
        let mut boxes = lock(&self.boxes);
        match address {
            NOTICES => boxes.notices.push_back((from, bytes)),
            _ => drop(boxes.letters.insert((from, address, number), bytes)),
        }
    }
}

// Takes those whose request has ended out of the list, in their order.
fn swept<T>(
    list: &mut Vec<T>,
    request: impl Fn(&mut T) -> &mut Request,
    mut ended: impl FnMut(T),
) -> Result<(), Fault> {
    let mut index = 0;
    while index < list.len() {
        match raw::has_ended(request(&mut list[index]))? {
            true => ended(list.remove(index)),
            false => index += 1,
        }
    }
    Ok(())
}
