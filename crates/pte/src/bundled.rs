//! A `.bpte` file.

use flatbuffers::{ForwardsUOffset, Vector};

use crate::container::{self, BUNDLED};
use crate::error::BundledFault;
use crate::generated::{bundled_program as fb, verified_root};
use crate::layout::Layout;
use crate::program::Program;
use crate::{Error, Result};

/// A program with test cases. Borrows from the file it was parsed from.
#[derive(Clone)]
pub struct BundledProgram<'a> {
    program: &'a [u8],
    suites: Vec<TestSuite<'a>>,
}

/// The program by its number of bytes.
impl std::fmt::Debug for BundledProgram<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BundledProgram({} bytes, {:?})", self.program.len(), self.suites)
    }
}

/// The test cases of one method.
#[derive(Clone, Debug)]
pub struct TestSuite<'a> {
    /// Name of the method.
    pub method: &'a str,
    /// Its cases.
    pub cases: Vec<TestCase<'a>>,
}

/// Inputs of a method, and what it should return.
#[derive(Clone, Debug)]
pub struct TestCase<'a> {
    /// Inputs in the method's order.
    pub inputs: Vec<BundledValue<'a>>,
    /// Expected outputs in the method's order; may be empty.
    pub expected_outputs: Vec<BundledValue<'a>>,
}

/// A value of a test case.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum BundledValue<'a> {
    /// A tensor with exactly its bytes, in its dimension order.
    Tensor(Layout<'a>, &'a [u8]),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
}

impl<'a> BundledProgram<'a> {
    /// Parses a whole `.bpte` file, of any alignment in memory. The program in it is not looked at.
    ///
    /// # Errors
    /// An [`Error`] that names what is wrong with the file.
    pub fn parse(file: &'a [u8]) -> Result<Self> {
        container::at_least("bundled program", file, 8)?;
        container::identified(file, BUNDLED)?;
        let buffer = container::flatbuffer(file, file.len() as u64)?;
        let root = verified_root::<fb::BundledProgram<'a>>(buffer)
            .map_err(|source| Error::FlatBuffer { kind: "bundled program", source })?;
        let program = root.program().ok_or(Error::Missing { field: "BundledProgram.program" })?.bytes();
        let suites = root.method_test_suites().into_iter().flatten();
        let suites = suites.map(TestSuite::parse).collect::<Result<_>>()?;
        Ok(Self { program, suites })
    }

    /// The program's bytes: a whole `.pte` file, aligned to 32 in the file.
    #[must_use]
    pub fn program_bytes(&self) -> &'a [u8] {
        self.program
    }

    /// Parses the program.
    ///
    /// # Errors
    /// As [`Program::parse`].
    pub fn program(&self) -> Result<Program<'a>> {
        Program::parse(self.program)
    }

    /// Test suites in file order.
    #[must_use]
    pub fn suites(&self) -> &[TestSuite<'a>] {
        &self.suites
    }
}

impl<'a> TestSuite<'a> {
    fn parse(suite: fb::BundledMethodTestSuite<'a>) -> Result<Self> {
        let method =
            suite.method_name().ok_or(Error::Missing { field: "BundledMethodTestSuite.method_name" })?;
        let cases = suite.test_cases().into_iter().flatten().enumerate();
        let cases = cases
            .map(|(index, case)| {
                Ok(TestCase {
                    inputs: values(case.inputs(), method, index, "input")?,
                    expected_outputs: values(case.expected_outputs(), method, index, "expected output")?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self { method, cases })
    }
}

fn values<'a>(
    values: Option<Vector<'a, ForwardsUOffset<fb::Value<'a>>>>,
    method: &str,
    case: usize,
    list: &'static str,
) -> Result<Vec<BundledValue<'a>>> {
    let parse = |(index, value)| {
        BundledValue::parse(value).map_err(|fault| Error::Bundled {
            suite: method.to_owned(),
            case,
            list,
            index,
            fault,
        })
    };
    values.into_iter().flatten().enumerate().map(parse).collect()
}

impl<'a> BundledValue<'a> {
    fn parse(value: fb::Value<'a>) -> Result<Self, BundledFault> {
        use fb::ValueUnion as V;
        // The verifier lets no kind but NONE pass without a body.
        let parsed = match value.val_type() {
            V::NONE => return Err(BundledFault::NoKind),
            V::Tensor => value.val_as_tensor().map(Self::tensor),
            V::Int => value.val_as_int().map(|v| Ok(Self::Int(v.int_val()))),
            V::Bool => value.val_as_bool().map(|v| Ok(Self::Bool(v.bool_val()))),
            V::Double => value.val_as_double().map(|v| Ok(Self::Double(v.double_val()))),
            V(found) => return Err(BundledFault::UnknownKind { found }),
        };
        parsed.unwrap_or(Err(BundledFault::NoKind))
    }

    fn tensor(tensor: fb::Tensor<'a>) -> Result<Self, BundledFault> {
        let layout = Layout::checked(tensor.scalar_type(), tensor.sizes(), tensor.dim_order())?;
        let data = tensor.data().map_or(&[][..], |data| data.bytes());
        Ok(Self::Tensor(layout, layout.take(data)?))
    }
}
