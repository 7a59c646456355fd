//! Every serialised operator name, once, with what lowers it.

use etvk_kernels::map::MapOp;
use etvk_kernels::reduce::ReduceOp;
use etvk_kernels::softmax::SoftmaxOp;

use super::call::{Call, Result};
use super::map::Twins;
use super::reduce::Forms;
use super::{
    attention_weights, conv, fill, fused, gather, grid_priors, linear_q, map, matmul, nibbles, norm, pad,
    pixel_shuffle, pool, qparams, quantize, reduce, repeat, resample, rope, sdpa, softmax, symbolic,
    training, view,
};

/// How a call becomes nodes.
#[derive(Clone, Copy, Debug)]
enum Lower {
    /// A float function of one tensor.
    Unary(MapOp),
    /// A function of one tensor with an integer twin.
    UnaryAny(Twins),
    /// A float function of one tensor with a parameter.
    UnaryParameter(MapOp),
    /// A function of two tensors.
    Binary(Twins),
    /// A function of two tensors, the second scaled by alpha.
    BinaryAlpha(Twins),
    /// A comparison of two tensors.
    Compare(Twins),
    /// A comparison with a number.
    CompareScalar(Twins),
    /// A function of two truth values.
    Logical(MapOp),
    /// A function of the bits of two integers.
    Bitwise(MapOp),
    /// A function of two tensors, then a clamp.
    BinaryClamp(Twins),
    /// A clamp, then a function of its result and a tensor.
    ClampBinary(Twins),
    /// A sum or a mean.
    SumLike(Forms),
    /// A maximum or minimum.
    Extremum(Forms),
    /// The position of one.
    ArgExtremum(Forms),
    /// A softmax.
    Softmax(SoftmaxOp),
    /// A tensor of one value of a given size.
    Filled(f64),
    /// A tensor of one value of another's size.
    Like(f64),
    /// Anything with arguments of its own.
    Call(fn(&mut Call<'_, '_>) -> Result<()>),
}

/// One serialised name.
#[derive(Debug)]
pub struct Operator {
    /// The name as serialised.
    pub name: &'static str,
    /// Argument positions the operator writes to.
    pub mutates: &'static [usize],
    lower: Lower,
}

impl Operator {
    pub(crate) fn lower(&self, call: &mut Call<'_, '_>) -> Result<()> {
        match self.lower {
            Lower::Unary(op) => map::unary(call, op),
            Lower::UnaryAny(ops) => map::unary_any(call, ops),
            Lower::UnaryParameter(op) => map::unary_parameter(call, op),
            Lower::Binary(ops) => map::binary(call, ops, false),
            Lower::BinaryAlpha(ops) => map::binary(call, ops, true),
            Lower::Compare(ops) => map::compare(call, ops),
            Lower::CompareScalar(ops) => map::compare_scalar(call, ops),
            Lower::Logical(op) => map::logical(call, op),
            Lower::Bitwise(op) => map::bitwise(call, op),
            Lower::BinaryClamp(ops) => fused::binary_with_clamp(call, ops),
            Lower::ClampBinary(ops) => fused::clamp_with_binary(call, ops),
            Lower::SumLike(ops) => reduce::sum_like(call, ops),
            Lower::Extremum(ops) => reduce::extremum(call, ops),
            Lower::ArgExtremum(ops) => reduce::arg_extremum(call, ops),
            Lower::Softmax(op) => softmax::softmax(call, op),
            Lower::Filled(value) => fill::filled(call, value),
            Lower::Like(value) => fill::like(call, value),
            Lower::Call(lower) => lower(call),
        }
    }
}

/// The operator of a serialised name.
#[must_use]
pub(crate) fn find(name: &str) -> Option<&'static Operator> {
    OPERATORS.binary_search_by(|operator| operator.name.cmp(name)).ok().map(|index| &OPERATORS[index])
}

const fn op(name: &'static str, lower: Lower) -> Operator {
    Operator { name, mutates: &[], lower }
}

const fn call(name: &'static str, lower: fn(&mut Call<'_, '_>) -> Result<()>) -> Operator {
    op(name, Lower::Call(lower))
}

const fn mutating(
    name: &'static str,
    mutates: &'static [usize],
    lower: fn(&mut Call<'_, '_>) -> Result<()>,
) -> Operator {
    Operator { name, mutates, lower: Lower::Call(lower) }
}

const fn twins(float: MapOp, int: MapOp) -> Twins {
    Twins { float, int }
}

const fn forms(float: ReduceOp, int: ReduceOp) -> Forms {
    Forms { float, int }
}

const EQ: Twins = twins(MapOp::EqF, MapOp::EqI);
const NE: Twins = twins(MapOp::NeF, MapOp::NeI);
const LT: Twins = twins(MapOp::LtF, MapOp::LtI);
const LE: Twins = twins(MapOp::LeF, MapOp::LeI);
const GT: Twins = twins(MapOp::GtF, MapOp::GtI);
const GE: Twins = twins(MapOp::GeF, MapOp::GeI);

/// All operators, sorted by name.
#[rustfmt::skip]
pub static OPERATORS: &[Operator] = &[
    call("_assert_scalar.default", symbolic::assertion),
    mutating("adamw_step.default", &[0, 1, 2], training::adamw_step),
    call("add", symbolic::add),
    call("aten._assert_scalar.default", symbolic::assertion),
    op("aten._log_softmax.default", Lower::Softmax(SoftmaxOp::LogSoftmax)),
    call("aten._native_batch_norm_legit_no_training.default", norm::batch_norm),
    op("aten._softmax.default", Lower::Softmax(SoftmaxOp::Softmax)),
    call("aten._to_copy.default", map::to_copy),
    call("aten._weight_int4pack_mm.default", nibbles::weight_int4),
    call("aten._weight_int8pack_mm.default", linear_q::int8pack),
    op("aten.abs.default", Lower::UnaryAny(twins(MapOp::AbsF, MapOp::AbsI))),
    op("aten.add.Tensor", Lower::BinaryAlpha(twins(MapOp::AddF, MapOp::AddI))),
    call("aten.addmm.default", matmul::addmm),
    call("aten.alias_copy.default", view::identity),
    op("aten.amax.default", Lower::Extremum(forms(ReduceOp::AmaxF, ReduceOp::AmaxI))),
    op("aten.amin.default", Lower::Extremum(forms(ReduceOp::AminF, ReduceOp::AminI))),
    call("aten.arange.start_step", fill::arange),
    op("aten.argmax.default", Lower::ArgExtremum(forms(ReduceOp::ArgmaxF, ReduceOp::ArgmaxI))),
    op("aten.argmin.default", Lower::ArgExtremum(forms(ReduceOp::ArgminF, ReduceOp::ArgminI))),
    call("aten.avg_pool2d.default", pool::average),
    op("aten.bitwise_and.Tensor", Lower::Bitwise(MapOp::BitAnd)),
    call("aten.bitwise_not.default", map::bitwise_not),
    op("aten.bitwise_or.Tensor", Lower::Bitwise(MapOp::BitOr)),
    op("aten.bitwise_xor.Tensor", Lower::Bitwise(MapOp::BitXor)),
    call("aten.bmm.default", matmul::mm),
    call("aten.cat.default", view::cat),
    op("aten.ceil.default", Lower::Unary(MapOp::Ceil)),
    call("aten.clamp.default", map::clamp),
    call("aten.clone.default", view::identity),
    call("aten.constant_pad_nd.default", pad::constant),
    call("aten.convolution.default", conv::convolution),
    call("aten.copy.default", repeat::copy),
    op("aten.cos.default", Lower::Unary(MapOp::Cos)),
    call("aten.div.Tensor", map::divide),
    call("aten.div.Tensor_mode", map::divide_mode),
    call("aten.embedding.default", gather::embedding),
    op("aten.eq.Scalar", Lower::CompareScalar(EQ)),
    op("aten.eq.Tensor", Lower::Compare(EQ)),
    op("aten.erf.default", Lower::Unary(MapOp::Erf)),
    op("aten.exp.default", Lower::Unary(MapOp::Exp)),
    call("aten.expand_copy.default", view::expand),
    call("aten.flip.default", view::flip),
    op("aten.floor.default", Lower::Unary(MapOp::Floor)),
    call("aten.full.default", fill::full),
    call("aten.full_like.default", fill::full_like),
    call("aten.gather.default", gather::gather_elements),
    op("aten.ge.Scalar", Lower::CompareScalar(GE)),
    op("aten.ge.Tensor", Lower::Compare(GE)),
    call("aten.gelu.default", map::gelu),
    call("aten.grid_sampler_2d.default", resample::grid_sampler),
    op("aten.gt.Scalar", Lower::CompareScalar(GT)),
    op("aten.gt.Tensor", Lower::Compare(GT)),
    op("aten.hardshrink.default", Lower::UnaryParameter(MapOp::Hardshrink)),
    op("aten.hardsigmoid.default", Lower::Unary(MapOp::Hardsigmoid)),
    op("aten.hardswish.default", Lower::Unary(MapOp::Hardswish)),
    call("aten.hardtanh.default", map::clamp),
    call("aten.index.Tensor", gather::index_tensors),
    call("aten.index_select.default", gather::index_select),
    op("aten.le.Scalar", Lower::CompareScalar(LE)),
    op("aten.le.Tensor", Lower::Compare(LE)),
    op("aten.leaky_relu.default", Lower::UnaryParameter(MapOp::LeakyRelu)),
    call("aten.linear.default", matmul::linear),
    op("aten.log.default", Lower::Unary(MapOp::Log)),
    op("aten.log10.default", Lower::Unary(MapOp::Log10)),
    op("aten.logical_and.default", Lower::Logical(MapOp::LogicalAnd)),
    call("aten.logical_not.default", map::logical_not),
    op("aten.logical_or.default", Lower::Logical(MapOp::LogicalOr)),
    op("aten.logical_xor.default", Lower::Logical(MapOp::LogicalXor)),
    op("aten.lt.Scalar", Lower::CompareScalar(LT)),
    op("aten.lt.Tensor", Lower::Compare(LT)),
    call("aten.max_pool2d.default", pool::max),
    call("aten.max_pool2d_with_indices.default", pool::max_with_indices),
    op("aten.maximum.default", Lower::Binary(twins(MapOp::MaxF, MapOp::MaxI))),
    op("aten.mean.dim", Lower::SumLike(forms(ReduceOp::MeanF, ReduceOp::SumI))),
    op("aten.minimum.default", Lower::Binary(twins(MapOp::MinF, MapOp::MinI))),
    call("aten.mm.default", matmul::mm),
    op("aten.mul.Tensor", Lower::Binary(twins(MapOp::MulF, MapOp::MulI))),
    call("aten.native_group_norm.default", norm::group_norm),
    call("aten.native_layer_norm.default", norm::layer_norm),
    op("aten.ne.Scalar", Lower::CompareScalar(NE)),
    op("aten.ne.Tensor", Lower::Compare(NE)),
    op("aten.neg.default", Lower::UnaryAny(twins(MapOp::NegF, MapOp::NegI))),
    op("aten.ones.default", Lower::Filled(1.0)),
    op("aten.ones_like.default", Lower::Like(1.0)),
    call("aten.permute.default", view::permute),
    call("aten.permute_copy.default", view::permute),
    call("aten.pixel_shuffle.default", pixel_shuffle::pixel_shuffle),
    call("aten.pow.Tensor_Scalar", map::pow_scalar),
    op("aten.pow.Tensor_Tensor", Lower::Binary(twins(MapOp::PowF, MapOp::PowI))),
    op("aten.reciprocal.default", Lower::Unary(MapOp::Reciprocal)),
    call("aten.relu.default", map::relu),
    call("aten.relu6.default", map::relu6),
    call("aten.repeat.default", repeat::repeat),
    call("aten.repeat_interleave.self_int", repeat::repeat_interleave),
    call("aten.rms_norm.default", norm::aten_rms_norm),
    op("aten.round.default", Lower::Unary(MapOp::Round)),
    op("aten.rsqrt.default", Lower::Unary(MapOp::Rsqrt)),
    call("aten.scalar_tensor.default", fill::scalar_tensor),
    call("aten.select.int", view::select),
    call("aten.select_copy.int", view::select),
    op("aten.sigmoid.default", Lower::Unary(MapOp::Sigmoid)),
    op("aten.sin.default", Lower::Unary(MapOp::Sin)),
    call("aten.slice.Tensor", view::slice),
    call("aten.slice_copy.Tensor", view::slice),
    call("aten.split.Tensor", view::split),
    call("aten.split_with_sizes_copy.default", view::split_with_sizes),
    op("aten.sqrt.default", Lower::Unary(MapOp::Sqrt)),
    call("aten.squeeze_copy.dims", view::squeeze),
    op("aten.sub.Tensor", Lower::BinaryAlpha(twins(MapOp::SubF, MapOp::SubI))),
    op("aten.sum.dim_IntList", Lower::SumLike(forms(ReduceOp::SumF, ReduceOp::SumI))),
    call("aten.sym_constrain_range_for_size.default", symbolic::assertion),
    call("aten.t_copy.default", view::matrix_transpose),
    op("aten.tan.default", Lower::Unary(MapOp::Tan)),
    op("aten.tanh.default", Lower::Unary(MapOp::Tanh)),
    call("aten.transpose.int", view::transpose),
    op("aten.trunc.default", Lower::Unary(MapOp::Trunc)),
    call("aten.unfold_copy.default", repeat::unfold),
    call("aten.unsqueeze_copy.default", view::unsqueeze),
    call("aten.upsample_bilinear2d.vec", resample::bilinear),
    call("aten.upsample_nearest2d.vec", resample::nearest),
    call("aten.var.dim", reduce::var),
    call("aten.view_copy.default", view::view_copy),
    call("aten.where.self", map::where_self),
    op("aten.zeros.default", Lower::Filled(0.0)),
    op("aten.zeros_like.default", Lower::Like(0.0)),
    call("choose_qparams.tensor", qparams::choose_tensor),
    call("choose_qparams_per_token_asymmetric.default", qparams::choose_per_token),
    call("conv_with_clamp.default", conv::convolution),
    call("custom_sdpa.default", sdpa::custom),
    call("dequantize_per_tensor.default", quantize::dequantize_per_tensor),
    call("dequantize_per_token.default", quantize::dequantize_per_token),
    call("dim_order_ops._clone_dim_order.default", view::identity),
    call("dim_order_ops._to_dim_order_copy.default", map::to_copy),
    call("eq", symbolic::eq),
    mutating("et_vk.adamw_step.default", &[0, 1, 2], training::adamw_step),
    call("et_vk.add_q8ta_q8ta_q8to.default", qparams::q8ta_add),
    call("et_vk.apply_rotary_emb.default", rope::pairs),
    call("et_vk.apply_rotary_emb_hf.default", rope::halves),
    call("et_vk.apply_rotary_emb_interleaved.default", rope::interleaved),
    op("et_vk.binary_add_with_clamp.default", Lower::BinaryClamp(twins(MapOp::AddF, MapOp::AddI))),
    op("et_vk.binary_div_with_clamp.default", Lower::BinaryClamp(twins(MapOp::DivF, MapOp::DivTruncI))),
    op("et_vk.binary_mul_with_clamp.default", Lower::BinaryClamp(twins(MapOp::MulF, MapOp::MulI))),
    op("et_vk.binary_sub_with_clamp.default", Lower::BinaryClamp(twins(MapOp::SubF, MapOp::SubI))),
    op("et_vk.clamp_with_binary_add.default", Lower::ClampBinary(twins(MapOp::AddF, MapOp::AddI))),
    op("et_vk.clamp_with_binary_div.default", Lower::ClampBinary(twins(MapOp::DivF, MapOp::DivTruncI))),
    op("et_vk.clamp_with_binary_mul.default", Lower::ClampBinary(twins(MapOp::MulF, MapOp::MulI))),
    op("et_vk.clamp_with_binary_sub.default", Lower::ClampBinary(twins(MapOp::SubF, MapOp::SubI))),
    call("et_vk.conv1d_dw.default", conv::conv1d),
    call("et_vk.conv1d_pw.default", conv::conv1d),
    call("et_vk.conv2d_gemm.default", conv::convolution),
    call("et_vk.conv2d_q8csw.default", conv::q8csw),
    call("et_vk.conv2d_q8ta_q8csw.default", conv::q8ta_q8csw),
    call("et_vk.conv2d_q8ta_q8csw_q8to.default", conv::q8to),
    call("et_vk.conv2d_q8ta_q8csw_q8to_dw.default", conv::q8to_depthwise),
    call("et_vk.conv_with_clamp.default", conv::convolution),
    call("et_vk.embedding_q4gsw.default", gather::embedding_q4gsw),
    call("et_vk.fused_ce.default", training::fused_ce),
    call("et_vk.gemma_custom_sdpa.default", sdpa::gemma_custom),
    mutating("et_vk.gemma_sdpa_with_kv_cache.default", &[3, 4], sdpa::gemma_with_kv_cache),
    call("et_vk.grid_priors.default", grid_priors::priors),
    call("et_vk.linear_dW.default", training::weight_gradient),
    call("et_vk.linear_dq8ca_q4gsw.default", linear_q::dq8ca_q4gsw),
    call("et_vk.linear_q4gsw.default", linear_q::q4gsw),
    call("et_vk.linear_q4gsw_backward.default", nibbles::backward),
    call("et_vk.linear_q8csw.default", linear_q::q8csw),
    call("et_vk.linear_q8ta_q8csw.default", linear_q::q8ta_q8csw),
    call("et_vk.linear_qcs4w.default", linear_q::qcs4w),
    call("et_vk.linear_weight_int4.default", nibbles::weight_int4),
    call("et_vk.prepack.default", view::prepack),
    call("et_vk.q4gsw_linear.default", linear_q::q4gsw),
    call("et_vk.q4gsw_requant.default", nibbles::requant),
    call("et_vk.q8ta_add.default", qparams::q8ta_add),
    call("et_vk.q8ta_conv2d.default", conv::q8ta),
    call("et_vk.q8ta_conv2d_dw.default", conv::q8ta_depthwise),
    call("et_vk.q8ta_conv2d_general.default", conv::q8ta),
    call("et_vk.q8ta_conv2d_im2col.default", conv::q8ta),
    call("et_vk.q8ta_conv2d_pw.default", conv::q8ta),
    call("et_vk.q8ta_conv2d_transposed.default", conv::q8ta_transposed),
    call("et_vk.q8ta_linear.default", linear_q::q8ta),
    call("et_vk.q8ta_linear_gemv.default", linear_q::q8ta),
    call("et_vk.q8ta_pixel_shuffle.default", pixel_shuffle::q8ta_pixel_shuffle),
    call("et_vk.q8ta_relu.default", qparams::q8ta_relu),
    call("et_vk.rms_norm.default", norm::rms_norm),
    call("et_vk.sdpa.default", sdpa::plain),
    call("et_vk.select_as_symint.default", symbolic::select_as_symint),
    call("etvk.choose_qparams_per_row.default", qparams::choose_per_row),
    call("etvk.test_conv2d_q8ta_q8csw_q8to.default", conv::q8to_test),
    call("floordiv", symbolic::floordiv),
    call("ge", symbolic::ge),
    call("gemma_custom_sdpa.default", sdpa::gemma_custom),
    mutating("gemma_sdpa_with_kv_cache.default", &[3, 4], sdpa::gemma_with_kv_cache),
    call("gt", symbolic::gt),
    call("le", symbolic::le),
    call("llama.custom_sdpa.default", sdpa::custom),
    mutating("llama.sdpa_with_kv_cache.default", &[3, 4], sdpa::with_kv_cache),
    mutating("llama.update_cache.default", &[1], sdpa::update_cache),
    call("lt", symbolic::lt),
    call("mul", symbolic::mul),
    call("quantize_per_tensor.default", quantize::quantize_per_tensor),
    call("quantize_per_token.default", quantize::quantize_per_token),
    call("quantized_decomposed.choose_qparams.tensor", qparams::choose_tensor),
    call("quantized_decomposed.choose_qparams_per_token_asymmetric.default", qparams::choose_per_token),
    call("quantized_decomposed.dequantize_per_channel.default", quantize::dequantize_per_channel),
    call("quantized_decomposed.dequantize_per_tensor.default", quantize::dequantize_per_tensor),
    call("quantized_decomposed.dequantize_per_tensor.tensor", quantize::dequantize_per_tensor_of_tensors),
    call("quantized_decomposed.dequantize_per_token.default", quantize::dequantize_per_token),
    call("quantized_decomposed.embedding_4bit.dtype", gather::embedding_4bit),
    call("quantized_decomposed.quantize_per_channel.default", quantize::quantize_per_channel),
    call("quantized_decomposed.quantize_per_tensor.default", quantize::quantize_per_tensor),
    call("quantized_decomposed.quantize_per_tensor.tensor", quantize::quantize_per_tensor_of_tensors),
    call("quantized_decomposed.quantize_per_token.default", quantize::quantize_per_token),
    mutating("sdpa_with_kv_cache.default", &[3, 4], sdpa::with_kv_cache),
    call("sub", symbolic::sub),
    call("sym_constrain_range_for_size.default", symbolic::assertion),
    call("sym_size.int", symbolic::sym_size),
    mutating("testing.compute_attn_weight_with_kv_cache.default", &[3, 4], attention_weights::with_kv_cache),
    call("torchao.choose_qparams_affine.default", qparams::choose_affine),
    call("torchao.dequantize_affine.default", quantize::dequantize_affine),
    call("torchao.quantize_affine.default", quantize::quantize_affine),
    mutating("update_cache.default", &[1], sdpa::update_cache),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(OPERATORS.is_sorted_by(|a, b| a.name < b.name));
        for operator in OPERATORS {
            assert_eq!(find(operator.name).map(|found| found.name), Some(operator.name));
        }
        assert!(find("aten.no_such_op.default").is_none());
    }
}
