//! NumPy arrays, SciPy matrices and what other processes have as rows for the library, read where they are.

use std::sync::atomic::{AtomicBool, Ordering};

use lsparse::data::{BorrowedCsr, BorrowedRows, CsrIndex, CsrValue, RowSource, Rows, Scalar, Wrapper};
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::elsewhere::Elsewhere;
use crate::gate::raise;

/// Borrowed arrays: while this lives they cannot go away, and nobody can borrow them to write.
pub struct Held<'py> {
    /// What messages call them.
    name: &'static str,
    arrays: Arrays<'py>,
}

enum Arrays<'py> {
    /// Dense rows.
    DenseF32(PyReadonlyArray2<'py, f32>),
    /// Dense rows.
    DenseF64(PyReadonlyArray2<'py, f64>),
    /// Compressed sparse rows.
    Csr { dim: usize, places: Places<'py>, values: Values<'py> },
    /// Rows that other processes have.
    Elsewhere(Elsewhere),
}

/// Where rows start and which columns values are in.
pub enum Places<'py> {
    I32(PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>),
    I64(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>),
}

/// Runs a macro over every type that sparse values may have.
macro_rules! with_value_types {
    ($run:ident) => {
        $run! { F32 f32, F64 f64, I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64 }
    };
}

macro_rules! values_enum {
    ($($name:ident $number:ty),*) => {
        /// The values of sparse rows.
        pub enum Values<'py> {
            $($name(PyReadonlyArray1<'py, $number>)),*
        }

        impl<'py> Values<'py> {
            fn borrow(array: &Bound<'py, PyAny>) -> PyResult<Self> {
                $(if let Some(values) = readonly::<$number>(array) {
                    return Ok(Values::$name(values));
                })*
                Err(PyTypeError::new_err(format!("values of type {} are not read", array.getattr("dtype")?)))
            }

            fn rows<'a, I: CsrIndex>(&'a self, name: &'static str, dim: usize, indptr: &'a [I], index: &'a [I]) -> PyResult<Box<dyn RowSource + 'a>> {
                match self {
                    $(Values::$name(values) => csr(values.py(), name, dim, indptr, index, slice(values)?)),*
                }
            }
        }
    };
}

with_value_types!(values_enum);

/// A one-dimensional array of this type, if it is one.
fn readonly<'py, T: Element>(array: &Bound<'py, PyAny>) -> Option<PyReadonlyArray1<'py, T>> {
    array.extract().ok()
}

fn slice<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    Ok(array.as_slice()?)
}

fn csr<'a, I: CsrIndex, V: CsrValue>(
    py: Python<'_>,
    name: &'static str,
    dim: usize,
    indptr: &'a [I],
    index: &'a [I],
    values: &'a [V],
) -> PyResult<Box<dyn RowSource + 'a>> {
    // Every entry is looked at.
    Ok(Box::new(py.detach(|| BorrowedCsr::new(name, dim, indptr, index, values)).map_err(raise)?))
}

impl<'py> Held<'py> {
    /// Borrow a two-dimensional array (C order, f32 or f64) or a CSR matrix with sorted columns.
    pub fn borrow(x: &Bound<'py, PyAny>) -> PyResult<Self> {
        Held::named("X", x)
    }

    /// The same for rows that are called otherwise in messages.
    pub fn named(name: &'static str, x: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Held { name, arrays: Arrays::borrow(x)? })
    }

    /// Who works batches out, where others have the rows.
    pub fn engine(&self) -> Option<Elsewhere> {
        match &self.arrays {
            Arrays::Elsewhere(rows) => Some(rows.clone()),
            _ => None,
        }
    }

    /// The rows.
    pub fn rows(&self) -> PyResult<Box<dyn RowSource + '_>> {
        self.arrays.rows(self.name)
    }
}

impl<'py> Arrays<'py> {
    fn borrow(x: &Bound<'py, PyAny>) -> PyResult<Self> {
        if Elsewhere::is(x)? {
            return Ok(Arrays::Elsewhere(Elsewhere::new(x)?));
        }
        if !x.hasattr("indptr")? {
            if let Ok(array) = x.extract() {
                return Ok(Arrays::DenseF32(array));
            }
            return Ok(Arrays::DenseF64(x.extract()?));
        }
        let (indptr, index) = (x.getattr("indptr")?, x.getattr("indices")?);
        let (_, dim): (usize, usize) = x.getattr("shape")?.extract()?;
        let places = match (readonly::<i32>(&indptr), readonly::<i32>(&index)) {
            (Some(indptr), Some(index)) => Places::I32(indptr, index),
            _ => Places::I64(indptr.extract()?, index.extract()?),
        };
        Ok(Arrays::Csr { dim, places, values: Values::borrow(&x.getattr("data")?)? })
    }

    fn rows(&self, name: &'static str) -> PyResult<Box<dyn RowSource + '_>> {
        match self {
            Arrays::DenseF32(array) => dense(name, array),
            Arrays::DenseF64(array) => dense(name, array),
            Arrays::Elsewhere(rows) => Ok(Box::new(rows.clone())),
            Arrays::Csr { dim, places: Places::I32(indptr, index), values } => {
                values.rows(name, *dim, slice(indptr)?, slice(index)?)
            }
            Arrays::Csr { dim, places: Places::I64(indptr, index), values } => {
                values.rows(name, *dim, slice(indptr)?, slice(index)?)
            }
        }
    }
}

/// Rows that are not read any more once somebody has asked for the end: work on them ends at its next panel.
pub struct Braked<'a> {
    pub rows: &'a dyn RowSource,
    pub now: &'a AtomicBool,
}

impl Braked<'_> {
    fn check(&self) -> lsparse::Result<()> {
        match self.now.load(Ordering::Relaxed) {
            true => Err(lsparse::Error::Interrupted { during: "reading the rows" }),
            false => Ok(()),
        }
    }
}

impl Wrapper for Braked<'_> {
    fn inside(&self) -> &dyn RowSource {
        self.rows
    }

    fn append<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> lsparse::Result<()> {
        self.check()?;
        T::read(self.rows, start, count, out)
    }
}

fn dense<'a, T: Scalar + Element>(
    name: &'static str,
    array: &'a PyReadonlyArray2<'_, T>,
) -> PyResult<Box<dyn RowSource + 'a>> {
    // A slice is also had of arrays in Fortran's order, whose rows are columns.
    if !array.is_c_contiguous() {
        return Err(PyTypeError::new_err("the array is not in C order"));
    }
    Ok(Box::new(BorrowedRows::new(name, array.shape()[1], array.as_slice()?).map_err(raise)?))
}

/// An array of a shape from its values, row by row.
pub fn array<'py, T: Element>(py: Python<'py>, shape: &[usize], values: Vec<T>) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    numpy::PyArray1::from_vec(py, values).reshape(shape)
}
