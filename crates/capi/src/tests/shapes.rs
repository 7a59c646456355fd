//! Memory orders other than row-major, and sizes that change.

use super::mixed::{given, source};
use super::support::{Arg, Args, OK, Tensor, last_error};
use crate::abi::EtvkScalarType;

/// Column by column.
fn columns(data: &[f32]) -> Tensor {
    let bytes = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor::ordered(EtvkScalarType::Float as i32, &[2, 3], &[1, 0], bytes)
}

#[test]
fn dim_order_of_inputs_and_outputs_is_honoured() {
    let handle = source().create().unwrap();
    // How the caller describes it: both ways, by strides alone, by the order alone.
    for described in 0..3 {
        let mut given = given();
        given[0] = columns(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]).into();
        given[3] = columns(&[0.0; 6]).into();
        let mut args = Args::new(given);
        for at in [0, 3] {
            let tensor = &mut args.raw[at].tensor;
            // The sizes are right; this keeps the callback from describing it anew.
            tensor.resize = None;
            match described {
                1 => tensor.dim_order = std::ptr::null(),
                2 => tensor.strides = std::ptr::null(),
                _ => {}
            }
        }
        assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
        assert_eq!(args.tensor(3).to_floats(), [11.0, 14.0, 22.0, 25.0, 33.0, 36.0]);
    }
}

#[test]
fn inputs_may_have_gaps_and_repeat() {
    let handle = source().create().unwrap();
    // Rows four elements apart, and one row for both.
    for (stride, data, want) in [
        (4, &[1.0f32, 2.0, 3.0, -1.0, 4.0, 5.0, 6.0][..], [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]),
        (0, &[1.0, 2.0, 3.0][..], [11.0, 22.0, 33.0, 11.0, 22.0, 33.0]),
    ] {
        let mut given = given();
        let mut input = Tensor::floats(&[2, 3], data);
        input.strides[0] = stride;
        given[0] = input.into();
        let mut args = Args::new(given);
        args.raw[0].tensor.dim_order = std::ptr::null();
        assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
        assert_eq!(args.tensor(3).to_floats(), want);
    }
}

#[test]
fn outputs_are_resized_before_they_are_written() {
    let handle = source().create().unwrap();
    for rows in [4, 1, 0, 3, 3] {
        let mut given = given();
        given[0] = Tensor::floats(&[rows, 3], &vec![1.0; rows * 3]).into();
        let mut args = Args::new(given);
        assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
        let output = args.tensor(3);
        assert_eq!((output.sizes.as_slice(), output.resized), (&[rows as i32, 3][..], 1));
        assert_eq!(output.to_floats(), [11.0, 21.0, 31.0].repeat(rows));
    }
    let Arg::Tensor(mut fits) = given().remove(0) else { panic!("a tensor") };
    fits.data.fill(0);
    let mut given = given();
    given[3] = Arg::Tensor(fits);
    let mut args = Args::new(given);
    args.raw[3].tensor.resize = None;
    assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
    assert_eq!(args.tensor(3).to_floats(), [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
}
