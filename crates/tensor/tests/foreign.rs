//! Tensors over memory that something else has allocated.

use fascicle_tensor::{DType, Device, Result, StreamKind, Tensor, ops};
use std::{cell::Cell, rc::Rc};

fn device() -> Result<Device> {
    Device::new(cpu::open(cpu::Options::default())?)
}

/// A vector's elements and address.
fn numbers() -> (Vec<f32>, usize) {
    let numbers: Vec<f32> = (0..1000).map(|index| index as f32).collect();
    let address = numbers.as_ptr().addr();
    (numbers, address)
}

#[test]
fn a_vector_goes_in_and_comes_out_without_a_copy() -> Result<()> {
    let device = device()?;
    let (elements, address) = numbers();
    let tensor = Tensor::from_vec(&device, &[10, 100], elements)?;
    ops::axpby(1.0, &tensor.rows(0, 1)?, 2.0, &tensor.rows(9, 1)?)?;
    let out = tensor.into_vec::<f32>()?;
    assert_eq!(out.as_ptr().addr(), address);
    assert_eq!(
        (out[899], out[900], out[999]),
        (899.0, 1800.0, 99.0 + 2.0 * 999.0)
    );
    assert_eq!(
        device.memory_use().in_use,
        0,
        "it is no memory of the device"
    );
    Ok(())
}

#[test]
fn a_vector_that_is_viewed_elsewhere_comes_out_as_a_copy() -> Result<()> {
    let device = device()?;
    let (elements, address) = numbers();
    let tensor = Tensor::from_vec(&device, &[1000], elements)?;
    let view = tensor.rows(10, 2)?;
    let out = tensor.into_vec::<f32>()?;
    assert_ne!(out.as_ptr().addr(), address);
    assert_eq!(
        view.into_vec::<f32>()?,
        [10.0, 11.0],
        "a part of the vector"
    );
    let whole = Tensor::from_vec(&device, &[2], vec![1i32, 2])?;
    assert!(whole.into_vec::<u32>().is_err(), "another type");
    assert_eq!(
        Tensor::zeros(&device, DType::F64, &[2])?.into_vec::<f64>()?,
        [0.0; 2]
    );
    Ok(())
}

#[test]
fn an_address_is_that_of_memory_which_the_tensor_keeps() -> Result<()> {
    let device = device()?;
    let (elements, address) = numbers();
    let tensor = Tensor::from_vec(&device, &[10, 100], elements)?;
    assert_eq!(tensor.address()?, address as u64);
    assert_eq!(tensor.rows(3, 1)?.address()?, (address + 1200) as u64);
    let mut lent = [0f32; 2];
    let refused = Tensor::lend_mut(&device, &[2], &mut lent, |tensor| Ok(tensor.address()))?;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "address: memory that was lent, or that has its owner elsewhere, needs memory that the tensor keeps"
    );
    Ok(())
}

#[test]
fn a_wrong_shape_is_refused() -> Result<()> {
    let device = device()?;
    let refused = Tensor::from_vec(&device, &[3], vec![1.0f64; 4]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "from_vec: 4 elements, needs 3, as [3] has"
    );
    let mut elements = [1.0f32; 4];
    let refused = Tensor::lend_mut(&device, &[5], &mut elements, |_| Ok(())).unwrap_err();
    assert_eq!(refused.to_string(), "lend: 4 elements, needs 5, as [5] has");
    Ok(())
}

#[test]
fn a_lent_slice_holds_what_was_written() -> Result<()> {
    let device = device()?;
    let (mut a, mut b) = (vec![1.0f64; 100], vec![2.0f64; 7]);
    let stream = device.create_stream(StreamKind::Communication, "beside")?;
    Tensor::lend_all_mut(&device, &mut [&mut a, &mut b], |tensors| {
        tensors[0].fill(3.0)?;
        // The loan ends after the work of all streams.
        ops::axpby_on(&stream, 1.0, &tensors[0].rows(0, 7)?, 1.0, &tensors[1])
    })?;
    assert_eq!((a, b), (vec![3.0; 100], vec![5.0; 7]));
    Ok(())
}

#[test]
fn a_clone_that_outlives_the_loan_has_no_memory() -> Result<()> {
    let device = device()?;
    let mut elements = [1.0f32; 4];
    let kept = Tensor::lend_mut(&device, &[2, 2], &mut elements, |tensor| Ok(tensor.clone()))?;
    elements[0] = 2.0;
    let refused = kept.fill(5.0).unwrap_err().to_string();
    assert_eq!(
        refused,
        "a tensor: 16 bytes whose owner has them back, needs one that has memory"
    );
    assert!(kept.to_vec::<f32>().is_err() && kept.clone().into_vec::<f32>().is_err());
    assert!(ops::add(&kept, &kept).is_err());
    assert_eq!(elements, [2.0, 1.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn a_loan_ends_also_if_the_work_fails_or_panics() -> Result<()> {
    let device = device()?;
    let mut elements = [1.0f32; 4];
    let kept = Rc::new(Cell::new(None));
    let keep = |tensor: &Tensor| kept.set(Some(tensor.clone()));
    let failed = Tensor::lend_mut(&device, &[4], &mut elements, |tensor| {
        keep(tensor);
        tensor.reshape(&[3])
    });
    assert!(failed.is_err());
    assert!(kept.take().expect("kept").fill(0.0).is_err());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = Tensor::lend_mut(&device, &[4], &mut elements, |tensor| -> Result<()> {
            keep(tensor);
            panic!("as planned");
        });
    }));
    assert!(panicked.is_err());
    assert!(kept.take().expect("kept").fill(0.0).is_err());
    assert_eq!(elements, [1.0; 4]);
    Ok(())
}

#[test]
fn memory_that_is_lent_to_be_read_is_not_written() -> Result<()> {
    let device = device()?;
    let elements = [1.0f32, 2.0];
    let sum = Tensor::lend(&device, &[2], &elements, |tensor| {
        let refused = tensor.fill(0.0).unwrap_err().to_string();
        assert_eq!(
            refused,
            "a tensor: a write to 8 bytes that were lent to be read, needs memory that may be written"
        );
        assert!(tensor.upload(&[0.0f32; 2]).is_err());
        ops::add(tensor, tensor)?.to_vec::<f32>()
    })?;
    assert_eq!((sum, elements), (vec![2.0, 4.0], [1.0, 2.0]));
    Ok(())
}

/// Four numbers of another allocator, which counts how often they are freed.
struct Owner(*mut [f32; 4], Rc<Cell<usize>>);

impl Owner {
    fn new(freed: &Rc<Cell<usize>>) -> Owner {
        Owner(Box::into_raw(Box::new([1.0; 4])), freed.clone())
    }

    fn address(&self) -> u64 {
        self.0.expose_provenance() as u64
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.set(self.1.get() + 1);
        // SAFETY: from `Box::into_raw`, once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

#[test]
fn memory_of_another_owner_returns_once() -> Result<()> {
    let device = device()?;
    let freed = Rc::new(Cell::new(0));
    let tensor = |owner: Owner, address: u64| {
        // SAFETY: the owner keeps four elements, and nothing else accesses them.
        unsafe { Tensor::from_memory(&device, DType::F32, &[4], address, Some(Box::new(owner))) }
    };
    let owner = Owner::new(&freed);
    let address = owner.address();
    let first = tensor(owner, address)?;
    first.fill(2.0)?;
    let view = first.rows(1, 2)?;
    drop(first);
    assert_eq!((freed.get(), view.to_vec::<f32>()?), (0, vec![2.0; 2]));
    drop(view);
    assert_eq!(freed.get(), 1);
    let owner = Owner::new(&freed);
    let address = owner.address();
    let refused = tensor(owner, address + 1).unwrap_err().to_string();
    assert!(refused.contains("aligned to 4 bytes"), "{refused}");
    assert_eq!(freed.get(), 2);
    let mut kept = [1.0f32; 4];
    let address = kept.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: the array outlives the tensor, and is not accessed meanwhile.
    let third = unsafe { Tensor::from_memory(&device, DType::F32, &[4], address, None) }?;
    third.fill(3.0)?;
    assert_eq!(third.into_vec::<f32>()?, [3.0; 4], "a copy");
    assert_eq!(kept, [3.0; 4]);
    Ok(())
}

#[test]
fn a_handle_of_a_stream_is_refused_where_there_is_none() -> Result<()> {
    let device = device()?;
    // SAFETY: the CPU has no such streams, and refuses every handle.
    let refused = unsafe { device.adopt_stream(16, "theirs") }.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stream 0x10 of another library: cpu:0, needs a device of CUDA or ROCm"
    );
    Ok(())
}
