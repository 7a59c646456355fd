//! Builders of the generic families: push constants of the declared size, specialisation, groups, refusals.

use etvk_kernels::copy::copy;
use etvk_kernels::fill::{Filling, fill};
use etvk_kernels::map::{MapOp, map};
use etvk_kernels::norm::{Norm, NormOp, norm};
use etvk_kernels::reduce::{ReduceOp, reduce};
use etvk_kernels::softmax::{SoftmaxOp, softmax};
use etvk_kernels::{Dims, Launch, Limits, Strided, Tier, Unsupported};

const LIMITS: Limits = Limits {
    max_invocations: 128,
    max_shared_bytes: 16384,
    max_groups: [65535; 3],
    subgroup_size: 4,
    tier: Tier::Plain,
};

fn dims(sizes: &[u32]) -> Dims {
    sizes.iter().copied().collect()
}

fn contiguous(sizes: &[u32]) -> Strided {
    Strided::contiguous(&dims(sizes))
}

fn check(launch: &Launch, specialization: &[u32], groups: u32) {
    let shader = launch.kernel.shader;
    assert_eq!(launch.push.len(), shader.push_words as usize, "{}", shader.name);
    assert_eq!(launch.kernel.specialization.as_slice(), specialization, "{}", shader.name);
    assert_eq!(launch.groups, [groups, 1, 1], "{}", shader.name);
}

#[test]
fn map_merges_what_operands_share() {
    let (a, b) = (contiguous(&[2, 3, 128]), contiguous(&[128]));
    let launch = map(MapOp::AddF, &[&a, &a], [0; 2], &a.sizes, &LIMITS).unwrap();
    check(&launch, &[MapOp::AddF as u32, 2, 1], 6);
    let launch = map(MapOp::AddF, &[&a, &b], [0; 2], &a.sizes, &LIMITS).unwrap();
    check(&launch, &[MapOp::AddF as u32, 2, 2], 6);
    let huge = contiguous(&[65536, 16384]);
    let launch = map(MapOp::Exp, &[&huge], [0; 2], &huge.sizes, &LIMITS).unwrap();
    check(&launch, &[MapOp::Exp as u32, 1, 1], 16384);
    let empty = contiguous(&[2, 0]);
    check(&map(MapOp::Exp, &[&empty], [0; 2], &empty.sizes, &LIMITS).unwrap(), &[MapOp::Exp as u32, 1, 2], 0);
}

#[test]
fn map_refuses_what_its_push_constants_cannot_hold() {
    let sizes = [2, 3, 2, 3, 2, 3, 2];
    let a = contiguous(&sizes);
    let b = contiguous(&[2, 1, 2, 1, 2, 1, 2]);
    let refused = map(MapOp::AddF, &[&a, &b], [0; 2], &a.sizes, &LIMITS);
    assert_eq!(refused, Err(Unsupported::Rank { left: 7, most: 6 }));
    let wrong = contiguous(&[4]);
    let refused = map(MapOp::AddF, &[&a, &wrong], [0; 2], &a.sizes, &LIMITS);
    assert_eq!(refused, Err(Unsupported::Broadcast { from: dims(&[4]), to: dims(&sizes) }));
    let large = dims(&[65536, 65536]);
    let refused = map(MapOp::Exp, &[&contiguous(&[1])], [0; 2], &large, &LIMITS);
    assert_eq!(refused, Err(Unsupported::Elements { sizes: large }));
}

#[test]
fn copy_is_wide_where_both_sides_are_flat_and_aligned() {
    let flat = contiguous(&[3, 1000]);
    check(&copy(&flat, &flat, &LIMITS).unwrap(), &[1, 1], 6);
    let odd = Strided { offset: 2, ..flat.clone() };
    check(&copy(&odd, &flat, &LIMITS).unwrap(), &[1, 0], 24);
    let moving = Strided { dynamic_offset: Some(3), ..flat.clone() };
    check(&copy(&flat, &moving, &LIMITS).unwrap(), &[1, 0], 24);
    let transposed =
        Strided { sizes: dims(&[1000, 3]), strides: [1, 1000].into_iter().collect(), ..Strided::default() };
    check(&copy(&transposed, &contiguous(&[1000, 3]), &LIMITS).unwrap(), &[2, 0], 24);
}

#[test]
fn fill_takes_any_rank() {
    let dst = Strided { strides: [-200, 20, 2].into_iter().collect(), ..contiguous(&[3, 4, 5]) };
    check(&fill(Filling::Word(7), &dst, &LIMITS).unwrap(), &[0, 3], 1);
    check(&fill(Filling::Ints { start: 1, step: -2 }, &contiguous(&[300]), &LIMITS).unwrap(), &[1, 1], 3);
    check(
        &fill(Filling::Floats { start: 0.5, step: 0.1 }, &Strided::default(), &LIMITS).unwrap(),
        &[2, 0],
        1,
    );
}

#[test]
fn reduce_chooses_a_workgroup_or_an_invocation_an_output() {
    let x = contiguous(&[7, 8, 1000]);
    let op = ReduceOp::SumF;
    check(&reduce(op, &x, |d| d == 2, 0.0, &LIMITS).unwrap(), &[op as u32, 1, 1, 1], 56);
    check(&reduce(op, &x, |d| d < 2, 0.0, &LIMITS).unwrap(), &[op as u32, 0, 1, 1], 8);
    check(&reduce(op, &x, |d| d == 1, 0.0, &LIMITS).unwrap(), &[op as u32, 0, 2, 1], 55);
    check(&reduce(op, &x, |_| true, 0.0, &LIMITS).unwrap(), &[op as u32, 1, 0, 1], 1);
    let many = contiguous(&[2; 8]);
    check(&reduce(op, &many, |d| d % 2 == 0, 0.0, &LIMITS).unwrap(), &[op as u32, 0, 4, 4], 1);
}

#[test]
fn softmax_takes_any_dimension() {
    let x = contiguous(&[4, 300, 20]);
    check(&softmax(SoftmaxOp::Softmax, &x, 2, &LIMITS).unwrap(), &[0, 0, 1], 10);
    check(&softmax(SoftmaxOp::LogSoftmax, &x, 1, &LIMITS).unwrap(), &[1, 1, 2], 80);
    check(&softmax(SoftmaxOp::Softmax, &Strided::default(), 0, &LIMITS).unwrap(), &[0, 0, 0], 1);
    let refused = softmax(SoftmaxOp::Softmax, &x, 3, &LIMITS);
    assert_eq!(refused, Err(Unsupported::Dim { dim: 3, rank: 3 }));
}

#[test]
fn norm_fits_its_workgroup_to_the_row() {
    let kind = Norm { op: NormOp::Rms, eps: 1e-6, weight: true, bias: false, stats: false };
    let launch = norm(&kind, &contiguous(&[2, 5, 256]), &LIMITS).unwrap();
    check(&launch, &[0, 1, 0, 0, 1, 32], 10);
    let large = Limits { max_invocations: 1024, tier: Tier::Full, ..LIMITS };
    let launch = norm(&kind, &contiguous(&[3, 4096]), &large).unwrap();
    check(&launch, &[0, 1, 0, 0, 1, 256], 3);
    assert_eq!(launch.kernel.shader.name, "norm.middle");
    let group =
        Norm { op: NormOp::Group { groups: 2, area: 49 }, eps: 1e-5, weight: true, bias: true, stats: true };
    check(&norm(&group, &contiguous(&[6, 147]), &LIMITS).unwrap(), &[2, 1, 1, 1, 1, 32], 6);
    let refused = norm(&kind, &Strided::default(), &LIMITS);
    assert_eq!(refused, Err(Unsupported::Dim { dim: 0, rank: 0 }));
}
