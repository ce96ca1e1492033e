use super::*;
use hal::VendorId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const DEVICE: DeviceId = DeviceId {
    vendor: VendorId::CPU,
    ordinal: 3,
};

fn streams() -> [HostStream; 2] {
    [StreamKind::Compute, StreamKind::Communication].map(|kind| HostStream::new(DEVICE, kind))
}

fn failure(reason: &str) -> Error {
    Error::Vendor {
        call: "test".into(),
        code: 1,
        reason: reason.into(),
        device: DEVICE,
    }
}

#[test]
fn jobs_run_in_order_and_events_follow_them() {
    for stream in streams() {
        let count = Arc::new(AtomicUsize::new(0));
        let mut last = 0.0;
        for turn in 0..100 {
            let count = count.clone();
            let job = move || {
                assert_eq!(count.fetch_add(1, Ordering::SeqCst), turn);
                Ok(())
            };
            stream.submit(job).unwrap();
            let event = stream.record().unwrap();
            event.synchronize().unwrap();
            let time = event.time_us().unwrap().unwrap();
            assert!(event.is_complete().unwrap() && time >= last);
            last = time;
        }
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 100);
    }
}

#[test]
fn the_first_failure_stays() {
    for stream in streams() {
        let _ = stream.submit(|| Err(failure("first")));
        let _ = stream.submit(|| Err(failure("second")));
        assert_eq!(stream.synchronize(), Err(failure("first")));
        assert_eq!(stream.submit(|| Ok(())), Err(failure("first")));
        assert_eq!(stream.record().map(drop), Err(failure("first")));
    }
}

#[test]
fn a_refusal_changes_nothing_inline() {
    let [stream, _] = streams();
    let refused = Error::invalid("test", "1", "2");
    assert_eq!(
        stream.submit(|| Err(Error::invalid("test", "1", "2"))),
        Err(refused)
    );
    stream.submit(|| Ok(())).unwrap();
}

#[test]
fn a_panic_in_the_queue_is_a_failure() {
    let [_, stream] = streams();
    stream
        .submit(|| std::panic::resume_unwind(Box::new("of a test")))
        .unwrap();
    let Err(Error::Vendor { reason, .. }) = stream.synchronize() else {
        panic!("no failure")
    };
    assert_eq!(reason, "panicked: of a test");
}

#[test]
fn a_queue_waits_for_another_without_its_host() {
    let ([_, first], [_, second]) = (streams(), streams());
    let (open, ran) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
    let closed = lock(&open);
    let (gate, counter) = (open.clone(), ran.clone());
    first
        .submit(move || {
            drop(lock(&gate));
            Ok(())
        })
        .unwrap();
    let event = first.record().unwrap();
    assert_eq!(
        (event.is_complete(), event.time_us()),
        (Ok(false), Ok(None))
    );
    second.wait(&*event).unwrap();
    second
        .submit(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    drop(closed);
    second.synchronize().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn a_failure_reaches_whoever_waits_for_its_event() {
    let ([inline, first], [_, second]) = (streams(), streams());
    first
        .submit(|| {
            std::thread::sleep(Duration::from_millis(10));
            Err(failure("of the first"))
        })
        .unwrap();
    let event = first.record().unwrap();
    second.wait(&*event).unwrap();
    assert_eq!(inline.wait(&*event), Err(failure("of the first")));
    assert_eq!(second.synchronize(), Err(failure("of the first")));
}

#[test]
fn copies_move_bytes_in_order() {
    for stream in streams() {
        let (mut a, mut b) = ([0u8; 5], [0u8; 5]);
        let raw = |memory: &mut [u8; 5]| RawBuffer {
            addr: memory.as_mut_ptr() as u64,
            bytes: 5,
        };
        let (raw_a, raw_b, mut out) = (raw(&mut a), raw(&mut b), [0; 5]);
        // SAFETY: both arrays live until the stream has passed, and nothing else uses them.
        unsafe { stream.upload(raw_a, &[1, 2, 3, 4, 5]) }.unwrap();
        // SAFETY: as above.
        unsafe { stream.copy(raw_b, raw_a) }.unwrap();
        // SAFETY: as above.
        unsafe { stream.download(&mut out, raw_b) }.unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5]);
    }
}

#[test]
fn dropping_a_queue_runs_what_is_in_it() {
    let ran = Arc::new(AtomicUsize::new(0));
    let [_, stream] = streams();
    for _ in 0..50 {
        let ran = ran.clone();
        stream
            .submit(move || {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
    }
    drop(stream);
    assert_eq!(ran.load(Ordering::SeqCst), 50);
}

#[derive(Debug)]
struct Foreign;

// SAFETY: never used with work.
unsafe impl Stream for Foreign {
    fn device_id(&self) -> DeviceId {
        DeviceId {
            vendor: VendorId::SIM,
            ordinal: 0,
        }
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
    fn kind(&self) -> StreamKind {
        StreamKind::Compute
    }
    unsafe fn copy(&self, _: RawBuffer, _: RawBuffer) -> Result<()> {
        Ok(())
    }
    unsafe fn upload(&self, _: RawBuffer, _: &[u8]) -> Result<()> {
        Ok(())
    }
    unsafe fn download(&self, _: &mut [u8], _: RawBuffer) -> Result<()> {
        Ok(())
    }
    fn record(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(Passed::now()))
    }
    fn wait(&self, _: &dyn Event) -> Result<()> {
        Ok(())
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct ForeignEvent;

// SAFETY: nothing is before it.
unsafe impl Event for ForeignEvent {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
    fn is_complete(&self) -> Result<bool> {
        Ok(true)
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn time_us(&self) -> Result<Option<f64>> {
        Ok(None)
    }
}

#[test]
fn an_event_of_another_vendor_is_refused() {
    for stream in streams() {
        let error = stream.wait(&ForeignEvent).unwrap_err();
        assert_eq!(
            error.to_string(),
            "wait: an event of another vendor, needs one of the cpu vendor"
        );
    }
}

#[test]
fn a_stream_of_another_vendor_is_refused() {
    let error = HostStream::of(&Foreign).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stream: one of sim:0, needs one of the cpu vendor"
    );
}
