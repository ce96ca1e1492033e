//! The host's processors beside a device: their work is queued, and the host edits their memory in place.

use fascicle_tensor::{
    DType, Device, Result, Tensor,
    ops::{CustomKernel, custom},
};
use std::{
    sync::{Arc, mpsc::channel},
    time::Duration,
};

fn device() -> Device {
    Device::new(cpu::open(cpu::Options::default()).unwrap()).unwrap()
}

#[test]
fn work_there_runs_beside_the_calling_thread_and_an_edit_waits_for_it() -> Result<()> {
    let host = device().open_host(2)?;
    let y = Tensor::zeros(&host, DType::F32, &[4])?;
    let (go, wait) = channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let kernel = Arc::new(CustomKernel::new("late").on_host(move |args| {
        // The caller of `launch` must have gone on, or nobody says `go`.
        let told = wait.lock().unwrap().recv_timeout(Duration::from_secs(60));
        args.write::<f32>(0)?
            .fill(if told.is_ok() { 3.0 } else { -1.0 });
        Ok(())
    }));
    custom(&kernel).write(&y).launch()?;
    go.send(()).unwrap();
    y.rows(1, 2)?.edit_bytes(|bytes| {
        assert_eq!(bytes, [3f32.to_ne_bytes(), 3f32.to_ne_bytes()].concat());
        bytes[..4].copy_from_slice(&7f32.to_ne_bytes());
        Ok(())
    })?;
    assert_eq!(y.to_vec::<f32>()?, [3.0, 7.0, 3.0, 3.0]);
    Ok(())
}

#[test]
fn an_edit_is_the_bytes_of_a_download_on_the_device_too() -> Result<()> {
    let device = device();
    let x = Tensor::from_slice(&device, &[3], &[1f32, 2.0, 3.0])?;
    x.edit_bytes(|bytes| {
        bytes.reverse();
        Ok(())
    })?;
    let reversed = [3f32, 2.0, 1.0].map(|number| f32::from_bits(number.to_bits().swap_bytes()));
    assert_eq!(x.to_vec::<f32>()?, reversed);
    Ok(())
}

// Otherwise safe code could read bytes that it is writing.
#[test]
fn nothing_else_uses_the_memory_during_an_edit() -> Result<()> {
    for device in [device(), device().open_host(1)?] {
        let x = Tensor::from_slice(&device, &[4], &[1f32, 2.0, 3.0, 4.0])?;
        let (part, before) = (x.rows(2, 2)?, x.clone());
        x.rows(0, 2)?.edit_bytes(|bytes| {
            let refused = [
                before.fill(0.0).unwrap_err(),
                part.to_vec::<f32>().unwrap_err(),
                part.edit_bytes(|_| Ok(())).unwrap_err(),
            ];
            for error in refused {
                let needed = "a tensor: 16 bytes that the host edits, needs the end of the edit";
                assert_eq!(error.to_string(), needed);
            }
            bytes.fill(0);
            Ok(())
        })?;
        assert_eq!(before.to_vec::<f32>()?, [0.0, 0.0, 3.0, 4.0]);
    }
    Ok(())
}

#[test]
fn a_failure_there_is_an_error_of_the_next_wait() -> Result<()> {
    let host = device().open_host(1)?;
    let y = Tensor::zeros(&host, DType::F32, &[4])?;
    let kernel = Arc::new(CustomKernel::new("broken").on_host(|_| panic!("no more")));
    custom(&kernel).write(&y).launch()?;
    let error = y.edit_bytes(|_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("no more"), "{error}");
    // What it left cannot be used.
    assert!(y.edit_bytes(|_| Ok(())).is_err());
    Ok(())
}
