//! One call: meet, read, meet again, and let the stream continue.

use super::{
    Member,
    meeting::{Key, Post},
    on_host,
    reads::{Finish, Reads},
};
use crate::{event::Point, stream::Core};
use hal::{Collective, Error, Result};
use std::sync::Arc;

/// The collectives of one call, each with its meeting.
#[derive(Debug)]
pub(super) struct Run {
    member: Arc<Member>,
    calls: Vec<(Key, Collective)>,
}

impl Run {
    pub(super) fn new(member: Arc<Member>, calls: Vec<(Key, Collective)>) -> Run {
        Run { member, calls }
    }

    /// Reports to the other ranks that this rank's stream has already failed, and returns the error.
    pub(super) fn refuse(&self, error: Error) -> Error {
        let Member { group, join, .. } = &*self.member;
        let reason = format!("its stream had failed before: {error}");
        group.fail(Error::Aborted {
            rank: join.members[join.rank],
            reason,
        });
        error
    }

    /// Queues the whole run on the stream, once the other ranks have posted.
    ///
    /// A failure is returned only after every rank has stopped reading this rank's buffers, which may then be freed, or
    /// after the group's timeout.
    ///
    /// # Safety
    /// As for [`hal::Communicator::run`].
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::Timeout`], [`Error::Aborted`], [`Error::Vendor`]; each of them ends the group.
    pub(super) unsafe fn execute(&self, core: &Core) -> Result<()> {
        let Member { group, join, .. } = &*self.member;
        let reading = group.begin_reading(join.rank);
        // SAFETY: passed on from the caller.
        let finishes = unsafe { self.announce_and_read(core) };
        let read = self.mark(core);
        group.end_reading(reading, read.as_ref().ok().cloned());
        // SAFETY: as above.
        let outcome = finishes.and_then(|finishes| unsafe { self.finish(core, finishes, read?) });
        outcome.map_err(|error| {
            let error = group.fail(error);
            group.await_readings(join.timeout);
            error
        })
    }

    // Safety: as for `execute`.
    unsafe fn announce_and_read(&self, core: &Core) -> Result<Vec<Finish>> {
        // We post every call before we wait for any: they progress together.
        let ready = self.mark(core)?;
        for (key, call) in &self.calls {
            // SAFETY: the caller vouches for the buffers.
            let bytes = unsafe { on_host::given(core, call) }?.map(Arc::new);
            let ordinal = self.member.context.ordinal;
            self.post(
                *key,
                Post {
                    call: Some(call.clone()),
                    ready: Some(ready.clone()),
                    bytes,
                    ordinal,
                },
            );
        }
        // SAFETY: as above.
        unsafe { self.read_all(core) }
    }

    // Safety: as for `execute`; what is finished has been read behind `read`.
    unsafe fn finish(&self, core: &Core, finishes: Vec<Finish>, read: Arc<Point>) -> Result<()> {
        for (key, _) in &self.calls {
            self.post(
                key.read(),
                Post {
                    ready: Some(read.clone()),
                    ..Post::presence()
                },
            );
        }
        for (key, call) in &self.calls {
            self.delayed(core, key.read(), call)?;
        }
        // SAFETY: every rank has read, in stream order, so the results may be written.
        finishes
            .iter()
            .try_for_each(|finish| unsafe { finish.write(core, &self.member.module) })
    }

    // The point that the stream has reached.
    fn mark(&self, core: &Core) -> Result<Arc<Point>> {
        let point = Point::new(&self.member.context)?;
        point.record(core.handle())?;
        Ok(Arc::new(point))
    }

    // Safety: as for `execute`.
    unsafe fn read_all(&self, core: &Core) -> Result<Vec<Finish>> {
        let mut reads = Reads::new(core, &self.member, &self.calls)?;
        let mut finishes = Vec::new();
        for (key, call) in &self.calls {
            let posts = self.delayed(core, *key, call)?;
            let calls: Vec<Collective> =
                posts.iter().filter_map(|post| post.call.clone()).collect();
            let size = self.member.join.members.len();
            if calls
                .iter()
                .skip(1)
                .any(|other| !calls[0].agrees(other, size))
            {
                return Err(self.member.group.mismatch(*key, &calls));
            }
            // SAFETY: every rank has posted the same call, and the stream waits for their buffers.
            finishes.extend(unsafe { reads.read(call, &posts) }?);
        }
        Ok(finishes)
    }

    // The posts of all ranks. The stream waits for their events.
    fn delayed(&self, core: &Core, key: Key, call: &Collective) -> Result<Vec<Post>> {
        let posts = self
            .member
            .group
            .collect(key, &self.member.join, &call.describe())?;
        let mut points = posts.iter().filter_map(|post| post.ready.as_ref());
        points.try_for_each(|point| point.delay(&core.context, core.handle()))?;
        Ok(posts)
    }

    fn post(&self, key: Key, post: Post) {
        self.member.group.post(key, self.member.join.rank, post);
    }
}
