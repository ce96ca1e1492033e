//! Tensors out and in again, their deleters counted, and what is refused.

use fascicle_dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_READ_ONLY,
    export, import,
};
use hal::{DType, Result};
use std::{
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use tensor::{Device, Tensor};

fn device() -> Result<Device> {
    Device::new(cpu::open(cpu::Options::default())?)
}

/// Another library's tensor, which counts the calls of its deleter.
struct Theirs {
    numbers: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: from `theirs`, deleted once.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let theirs = unsafe { Box::from_raw(managed.manager_ctx.cast::<Theirs>()) };
    theirs.deleted.fetch_add(1, Ordering::SeqCst);
}

fn theirs(shape: &[i64], strides: &[i64]) -> (*mut DLManagedTensorVersioned, Arc<AtomicUsize>) {
    let deleted = Arc::new(AtomicUsize::new(0));
    let mut theirs = Box::new(Theirs {
        numbers: (0..12).map(|index| index as f32).collect(),
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        deleted: deleted.clone(),
    });
    let strides = match theirs.strides.is_empty() {
        true => ptr::null_mut(),
        false => theirs.strides.as_mut_ptr(),
    };
    let dl_tensor = DLTensor {
        data: theirs.numbers.as_mut_ptr().cast(),
        device: DLDevice {
            device_type: 1,
            device_id: 0,
        },
        ndim: shape.len() as i32,
        dtype: DLDataType {
            code: 2,
            bits: 32,
            lanes: 1,
        },
        shape: theirs.shape.as_mut_ptr(),
        strides,
        byte_offset: 0,
    };
    let managed = Box::new(DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: Box::into_raw(theirs).cast::<c_void>(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    });
    (Box::into_raw(managed), deleted)
}

/// The sentence with which a changed tensor is refused; its deleter has then run once.
fn refused(change: impl FnOnce(&mut DLManagedTensorVersioned)) -> String {
    let (managed, deleted) = theirs(&[3, 4], &[]);
    // SAFETY: from `theirs`, not consumed yet.
    change(unsafe { &mut *managed });
    let device = device().expect("the CPU");
    // SAFETY: from `theirs`; what it claims of memory it has not got is refused before.
    let error = unsafe { import(&device, managed) }.unwrap_err();
    assert_eq!(deleted.load(Ordering::SeqCst), 1, "{error}");
    error.to_string()
}

#[test]
fn another_librarys_tensor_is_used_in_its_memory_and_given_back_once() -> Result<()> {
    let device = device()?;
    // A dim of size 1 may have any stride.
    for (shape, strides) in [
        (&[3i64, 4][..], &[][..]),
        (&[3, 4], &[4, 1]),
        (&[3, 1, 4], &[4, 99, 1]),
    ] {
        let (managed, deleted) = theirs(shape, strides);
        // SAFETY: from `theirs`, consumed here.
        let data = unsafe { (*managed).dl_tensor.data.addr() };
        // SAFETY: as above.
        let tensor = unsafe { import(&device, managed) }?;
        let wanted: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        assert_eq!((tensor.shape(), tensor.dtype()), (&wanted[..], DType::F32));
        assert_eq!(tensor.address()?, data as u64, "no copy");
        let view = tensor.rows(1, 2)?;
        drop(tensor);
        assert_eq!(
            view.to_vec::<f32>()?,
            (4..12).map(|index| index as f32).collect::<Vec<f32>>()
        );
        assert_eq!(deleted.load(Ordering::SeqCst), 0, "a view holds it");
        drop(view);
        assert_eq!(deleted.load(Ordering::SeqCst), 1);
    }
    Ok(())
}

#[test]
fn an_offset_is_where_the_elements_begin() -> Result<()> {
    let (managed, _) = theirs(&[2, 4], &[]);
    // SAFETY: from `theirs`, not consumed yet; eight elements from the fifth on are within its twelve.
    unsafe { (*managed).dl_tensor.byte_offset = 16 };
    // SAFETY: as above.
    let tensor = unsafe { import(&device()?, managed) }?;
    assert_eq!(tensor.to_vec::<f32>()?[..3], [4.0, 5.0, 6.0]);
    Ok(())
}

#[test]
fn a_tensor_goes_out_and_comes_in_as_itself() -> Result<()> {
    let device = device()?;
    let tensor = Tensor::from_vec(&device, &[2, 3], vec![1i32, 2, 3, 4, 5, 6])?;
    let before = device.memory_use().in_use;
    let out = export(&tensor.rows(1, 1)?)?;
    // SAFETY: `out` was just exported.
    let seen = unsafe { out.as_ref() };
    assert_eq!((seen.version.major, seen.flags), (1, 0));
    assert_eq!(
        seen.dl_tensor.dtype,
        DLDataType {
            code: 0,
            bits: 32,
            lanes: 1
        }
    );
    // SAFETY: a consumer may read the elements.
    assert_eq!(unsafe { *seen.dl_tensor.data.cast::<i32>() }, 4);
    // SAFETY: consumed here, once.
    let again = unsafe { import(&device, out.as_ptr()) }?;
    assert_eq!(
        (again.shape(), again.to_vec::<i32>()?),
        (&[1, 3][..], vec![4, 5, 6])
    );
    drop(tensor);
    assert_eq!(again.to_vec::<i32>()?, [4, 5, 6], "it keeps the memory");
    drop(again);
    assert_eq!(device.memory_use().in_use, before);
    let empty = Tensor::zeros(&device, DType::F64, &[0, 5])?;
    let out = export(&empty)?;
    // SAFETY: consumed here, once.
    assert!(unsafe { out.as_ref() }.dl_tensor.data.is_null());
    // SAFETY: as above.
    let empty = unsafe { import(&device, out.as_ptr()) }?;
    assert_eq!(empty.shape(), [0, 5]);
    Ok(())
}

/// Memory that reports its end.
struct Numbers(Vec<f32>, Arc<AtomicUsize>);

impl Drop for Numbers {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_deleter_on_another_thread_frees_on_the_tensors_own() -> Result<()> {
    let device = device()?;
    let freed = Arc::new(AtomicUsize::new(0));
    let mut numbers = Box::new(Numbers(vec![1.0; 4], freed.clone()));
    let address = numbers.0.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: the owner keeps the vector.
    let tensor = unsafe { Tensor::from_memory(&device, DType::F32, &[4], address, Some(numbers)) }?;
    let out = export(&tensor)?.as_ptr().expose_provenance();
    drop(tensor);
    thread::spawn(move || {
        let managed = ptr::with_exposed_provenance_mut::<DLManagedTensorVersioned>(out);
        // SAFETY: exported above, deleted once.
        unsafe { (*managed).deleter.expect("a deleter")(managed) };
    })
    .join()
    .expect("the thread");
    assert_eq!(
        freed.load(Ordering::SeqCst),
        0,
        "a tensor stays on its thread"
    );
    let other = export(&Tensor::zeros(&device, DType::F32, &[1])?)?;
    assert_eq!(freed.load(Ordering::SeqCst), 1, "the next export frees it");
    // SAFETY: exported above, deleted once.
    unsafe { other.as_ref().deleter.expect("a deleter")(other.as_ptr()) };
    Ok(())
}

#[test]
fn what_cannot_be_shared_is_refused_and_given_back() -> Result<()> {
    let device = device()?;
    // SAFETY: null is refused.
    let null = unsafe { import(&device, ptr::null_mut()) }.unwrap_err();
    assert_eq!(null.to_string(), "DLPack: null, needs a tensor");
    assert_eq!(
        refused(|it| it.version = DLPackVersion { major: 2, minor: 3 }),
        "DLPack: version 2.3, needs version 1 of the structs"
    );
    assert_eq!(
        refused(|it| it.flags = FLAG_READ_ONLY),
        "DLPack: a tensor to read only, needs one that may be written"
    );
    assert_eq!(
        refused(|it| it.dl_tensor.device = DLDevice {
            device_type: 2,
            device_id: 1
        }),
        "DLPack: DLDevice { device_type: 2, device_id: 1 }, needs DLDevice { device_type: 1, device_id: 0 }, which is cpu:0"
    );
    assert_eq!(
        refused(|it| it.dl_tensor.dtype.bits = 8),
        "DLPack: a type of code 2, 8 bits and 1 lanes, needs f64, f32, bf16, f16, i32, u32 or u8"
    );
    assert_eq!(
        refused(|it| it.dl_tensor.ndim = -1),
        "DLPack: -1 dims, needs 0 or more"
    );
    assert_eq!(
        refused(|it| it.dl_tensor.shape = ptr::null_mut()),
        "DLPack: no shape for 2 dims, needs their sizes"
    );
    assert!(refused(|it| it.dl_tensor.byte_offset = u64::MAX).contains("an offset beyond memory"));
    assert!(refused(|it| it.dl_tensor.byte_offset = 2).contains("an address aligned to 4 bytes"));
    assert!(refused(|it| it.dl_tensor.data = ptr::null_mut()).contains("0x0"));
    let (managed, deleted) = theirs(&[3, 4], &[1, 3]);
    // SAFETY: from `theirs`, consumed here.
    let turned = unsafe { import(&device, managed) }.unwrap_err();
    assert_eq!(
        turned.to_string(),
        "DLPack: strides [1, 3] of shape [3, 4], needs contiguous elements in row-major order"
    );
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
    let mut lent = [1f32; 4];
    let refused = Tensor::lend_mut(&device, &[4], &mut lent, |tensor| {
        Ok(export(tensor).is_err())
    })?;
    assert!(refused, "memory that goes back to its lender");
    Ok(())
}
