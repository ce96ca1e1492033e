//! A GEMM's descriptors and its algorithm, as a caller keeps them.

use crate::{
    common::Handle,
    vendor::{Vendor, lt},
};
use std::{ffi::c_void, ptr};

/// Bytes of workspace that the first algorithm of the emulator needs.
pub const WORKSPACE: usize = 1 << 20;

/// What a matrix is: a type's number, rows, columns and the leading dimension.
#[derive(Clone, Copy)]
pub struct Matrix(pub i32, pub u64, pub u64, pub i64);

/// Where the matrices and the workspace are.
#[derive(Clone, Copy)]
pub struct Places {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub d: u64,
    pub workspace: u64,
    pub bytes: usize,
}

pub struct Matmul<'a> {
    pub vendor: &'a Vendor,
    pub handle: Handle,
    pub operation: Handle,
    /// Of a, b, c and d.
    pub layouts: [Handle; 4],
    pub preference: Handle,
    pub algo: Vec<u8>,
    pub stream: Handle,
    pub scalars: [f32; 2],
}

impl<'a> Matmul<'a> {
    pub fn new(
        vendor: &'a Vendor,
        matrices: [Matrix; 4],
        transposed: [bool; 2],
        scalars: [f32; 2],
    ) -> Self {
        let mut handles = [ptr::null_mut(); 3];
        let [handle, operation, preference] = &mut handles;
        assert_eq!(lt!(vendor, "Create"(handle => *mut Handle)), 0);
        let compute = vendor.numbers.compute[0];
        assert_eq!(
            lt!(vendor, "MatmulDescCreate"(operation => *mut Handle, compute => i32, 0 => i32)),
            0
        );
        assert_eq!(
            lt!(vendor, "MatmulPreferenceCreate"(preference => *mut Handle)),
            0
        );
        let layouts = matrices.map(|Matrix(kind, rows, columns, leading)| {
            let mut layout: Handle = ptr::null_mut();
            let status = lt!(vendor, "MatrixLayoutCreate"(
                &mut layout => *mut Handle, kind => i32, rows => u64, columns => u64, leading => i64));
            assert_eq!(status, 0);
            layout
        });
        let ([handle, operation, preference], stream) = (handles, ptr::null_mut());
        let matmul = Self {
            vendor,
            handle,
            operation,
            layouts,
            preference,
            algo: vec![],
            stream,
            scalars,
        };
        for (attribute, is) in vendor.numbers.transposed.into_iter().zip(transposed) {
            matmul.say(attribute, vendor.numbers.as_it_is + i32::from(is));
        }
        assert_eq!(matmul.prefer(1, WORKSPACE as u64), 0);
        if vendor.is_cuda() {
            (5..=8).for_each(|matrix| assert_eq!(matmul.prefer(matrix, 16u32), 0));
        }
        matmul
    }

    pub fn set<T>(&self, attribute: i32, value: T) -> i32 {
        lt!(self.vendor, "MatmulDescSetAttribute"(self.operation => Handle, attribute => i32, &raw const value => *const T,
            size_of::<T>() => usize))
    }

    pub fn say<T>(&self, attribute: i32, value: T) {
        assert_eq!(self.set(attribute, value), 0, "attribute {attribute}");
    }

    pub fn prefer<T>(&self, attribute: i32, value: T) -> i32 {
        lt!(self.vendor, "MatmulPreferenceSetAttribute"(self.preference => Handle, attribute => i32,
            &raw const value => *const T, size_of::<T>() => usize))
    }

    pub fn lay_out<T>(&self, matrix: usize, attribute: i32, value: T) -> i32 {
        lt!(self.vendor, "MatrixLayoutSetAttribute"(self.layouts[matrix] => Handle, attribute => i32,
            &raw const value => *const T, size_of::<T>() => usize))
    }

    /// The status of a search for that many algorithms, and each with its workspace.
    pub fn find(&self, most: usize) -> (i32, Vec<(Vec<u8>, usize)>) {
        let (numbers, [a, b, c, d]) = (self.vendor.numbers, self.layouts);
        let words = numbers.result / 8;
        let (mut results, mut found) = (vec![0u64; most * words], -1);
        let status = lt!(self.vendor, "MatmulAlgoGetHeuristic"(
            self.handle => Handle, self.operation => Handle, a => Handle, b => Handle, c => Handle, d => Handle,
            self.preference => Handle, most as i32 => i32, results.as_mut_ptr() => *mut u64, &mut found => *mut i32));
        let result = |words: &[u64]| {
            let (algo, rest) = words.split_at(numbers.algo / 8);
            let algo = algo.iter().flat_map(|word| word.to_ne_bytes()).collect();
            (algo, rest[0] as usize)
        };
        let found = usize::try_from(found).expect("the search counts what it finds");
        (
            status,
            results.chunks(words).take(found).map(result).collect(),
        )
    }

    /// The status, the number of algorithms, and the workspace of the one that is then this matmul's.
    pub fn choose(&mut self) -> (i32, usize, usize) {
        let (status, mut found) = self.find(1);
        let number = found.len();
        let workspace = found.pop().map_or(0, |(algo, workspace)| {
            self.algo = algo;
            workspace
        });
        (status, number, workspace)
    }

    pub fn run(&self, at: Places) -> i32 {
        let ([alpha, beta], [a, b, c, d]) = (&self.scalars, self.layouts);
        let algo = if self.algo.is_empty() {
            ptr::null()
        } else {
            self.algo.as_ptr()
        };
        lt!(self.vendor, "Matmul"(self.handle => Handle, self.operation => Handle, alpha => *const f32,
            at.a => u64, a => Handle, at.b => u64, b => Handle, beta => *const f32, at.c => u64, c => Handle,
            at.d => u64, d => Handle, algo.cast() => *const c_void, at.workspace => u64, at.bytes => usize,
            self.stream => Handle))
    }

    pub fn destroy(self) {
        for layout in self.layouts {
            assert_eq!(lt!(self.vendor, "MatrixLayoutDestroy"(layout => Handle)), 0);
        }
        assert_eq!(
            lt!(self.vendor, "MatmulPreferenceDestroy"(self.preference => Handle)),
            0
        );
        assert_eq!(
            lt!(self.vendor, "MatmulDescDestroy"(self.operation => Handle)),
            0
        );
        assert_eq!(lt!(self.vendor, "Destroy"(self.handle => Handle)), 0);
    }
}
