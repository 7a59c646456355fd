//! CPU kernels for what is not delegated: obvious loops over `f64` and `i64`, one for every element type.

mod call;
mod convolution;
mod elements;
mod pointwise;
mod reduce;
mod symbolic;

pub(crate) use call::Call;

use crate::error::KernelFault;

/// A kernel reads its arguments and writes its outputs, all of them values of the frame.
pub(crate) type Kernel = fn(&mut Call<'_>) -> Result<(), KernelFault>;

/// Every kernel by `name.overload`, sorted.
const KERNELS: &[(&str, Kernel)] = &[
    ("aten::_local_scalar_dense", symbolic::local_scalar_dense),
    ("aten::add.Scalar_out", pointwise::add_scalar),
    ("aten::any.out", reduce::any),
    ("aten::convolution.out", convolution::convolution),
    ("aten::cumsum.out", reduce::cumsum),
    ("aten::expand_copy.out", pointwise::expand_copy),
    ("aten::mean.dtype_out", reduce::mean_all),
    ("aten::mean.out", reduce::mean),
    ("aten::mul.Scalar_out", pointwise::mul_scalar),
    ("aten::scalar_tensor.out", pointwise::scalar_tensor),
    ("aten::sum.IntList_out", reduce::sum),
    ("aten::sym_numel", symbolic::sym_numel),
    ("aten::sym_size.int", symbolic::sym_size),
    ("aten::var.correction_out", reduce::var),
    ("aten::where.self_out", pointwise::where_self),
    ("dim_order_ops::_to_dim_order_copy.out", pointwise::to_dim_order_copy),
    ("executorch_prim::add.Scalar", symbolic::add),
    ("executorch_prim::ceil.Scalar", symbolic::ceil),
    ("executorch_prim::eq.Scalar", symbolic::eq),
    ("executorch_prim::et_copy_index.tensor", symbolic::et_copy_index),
    ("executorch_prim::et_view.default", symbolic::et_view),
    ("executorch_prim::floordiv.Scalar", symbolic::floordiv),
    ("executorch_prim::floordiv.int", symbolic::floordiv),
    ("executorch_prim::ge.Scalar", symbolic::ge),
    ("executorch_prim::gt.Scalar", symbolic::gt),
    ("executorch_prim::le.Scalar", symbolic::le),
    ("executorch_prim::lt.Scalar", symbolic::lt),
    ("executorch_prim::mod.Scalar", symbolic::modulo),
    ("executorch_prim::mod.int", symbolic::modulo),
    ("executorch_prim::mul.Scalar", symbolic::mul),
    ("executorch_prim::neg.Scalar", symbolic::neg),
    ("executorch_prim::round.Scalar", symbolic::round),
    ("executorch_prim::sub.Scalar", symbolic::sub),
    ("executorch_prim::sym_float.Scalar", symbolic::sym_float),
    ("executorch_prim::sym_int.Scalar", symbolic::trunc),
    ("executorch_prim::sym_ite.Scalar", symbolic::sym_ite),
    ("executorch_prim::sym_max.Scalar", symbolic::sym_max),
    ("executorch_prim::sym_min.Scalar", symbolic::sym_min),
    ("executorch_prim::sym_not.Scalar", symbolic::sym_not),
    ("executorch_prim::truediv.Scalar", symbolic::truediv),
    ("executorch_prim::trunc.Scalar", symbolic::trunc),
];

/// The kernel of an operator, by `name.overload`.
pub(crate) fn find(name: &str) -> Option<Kernel> {
    KERNELS
        .binary_search_by_key(&name, |&(name, _)| name)
        .ok()
        .and_then(|at| KERNELS.get(at))
        .map(|&(_, k)| k)
}

/// The operators that this build runs on the CPU, as `name.overload`, sorted.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    KERNELS.iter().map(|&(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(names().is_sorted());
        assert!(find("aten::sym_size.int").is_some() && find("aten::sort.values").is_none());
    }
}
