//! Every operator by its serialised name.

use crate::conv::{self, Layout};
use crate::frame::Frame;
use crate::qparams::Direction::{Dequantise, Quantise};
use crate::{Fault, copy, fill, gather, linear_q, map, matmul, norm, qparams, reduce};
use crate::{pool, resample, rope, sdpa, softmax, symbolic, training, view};

/// Executes one call.
pub type Function = fn(&mut Frame<'_>) -> Result<(), Fault>;

/// The operator that gives a constant contents of its own.
pub(crate) const PREPACK: &str = "et_vk.prepack.default";

/// The function of an operator.
pub(crate) fn find(name: &str) -> Option<Function> {
    OPERATORS.iter().find(|(known, _)| *known == name).map(|&(_, function)| function)
}

/// Every operator name that is understood, once, with its function.
#[rustfmt::skip]
pub static OPERATORS: &[(&str, Function)] = &[
    // Element-wise, one operand.
    ("aten.abs.default", |f| map::unary(f, f64::abs)),
    ("aten.bitwise_not.default", map::logical_not),
    ("aten.clamp.default", map::clamp),
    ("aten.cos.default", |f| map::unary(f, f64::cos)),
    ("aten.exp.default", |f| map::unary(f, f64::exp)),
    ("aten.gelu.default", map::gelu),
    ("aten.hardshrink.default", map::hardshrink),
    ("aten.hardsigmoid.default", |f| map::unary(f, map::hardsigmoid)),
    ("aten.hardswish.default", |f| map::unary(f, map::hardswish)),
    ("aten.hardtanh.default", map::hardtanh),
    ("aten.leaky_relu.default", map::leaky_relu),
    ("aten.log10.default", |f| map::unary(f, f64::log10)),
    ("aten.logical_not.default", map::logical_not),
    ("aten.neg.default", |f| map::unary(f, |x| -x)),
    ("aten.relu.default", |f| map::unary(f, map::relu)),
    ("aten.relu6.default", |f| map::unary(f, |x| map::clamped(x, Some(0.0), Some(6.0)))),
    ("aten.round.default", |f| map::unary(f, f64::round_ties_even)),
    ("aten.rsqrt.default", |f| map::unary(f, |x| 1.0 / x.sqrt())),
    ("aten.sigmoid.default", |f| map::unary(f, map::sigmoid)),
    ("aten.sin.default", |f| map::unary(f, f64::sin)),
    ("aten.sqrt.default", |f| map::unary(f, f64::sqrt)),
    ("aten.tan.default", |f| map::unary(f, f64::tan)),
    ("aten.tanh.default", |f| map::unary(f, f64::tanh)),
    // Element-wise, two and three operands.
    ("aten.add.Tensor", |f| map::add(f, 1)),
    ("aten.sub.Tensor", |f| map::add(f, -1)),
    ("aten.mul.Tensor", map::mul),
    ("aten.div.Tensor", map::div),
    ("aten.div.Tensor_mode", map::div_mode),
    ("aten.pow.Tensor_Tensor", map::pow),
    ("aten.pow.Tensor_Scalar", map::pow_scalar),
    ("aten.minimum.default", map::minimum),
    ("aten.eq.Tensor", |f| map::compare(f, map::is_eq)),
    ("aten.lt.Tensor", |f| map::compare(f, map::is_lt)),
    ("aten.le.Tensor", |f| map::compare(f, map::is_le)),
    ("aten.gt.Tensor", |f| map::compare(f, map::is_gt)),
    ("aten.ge.Tensor", |f| map::compare(f, map::is_ge)),
    ("aten.eq.Scalar", |f| map::compare_scalar(f, map::is_eq)),
    ("aten.ne.Scalar", |f| map::compare_scalar(f, map::is_ne)),
    ("aten.lt.Scalar", |f| map::compare_scalar(f, map::is_lt)),
    ("aten.le.Scalar", |f| map::compare_scalar(f, map::is_le)),
    ("aten.gt.Scalar", |f| map::compare_scalar(f, map::is_gt)),
    ("aten.ge.Scalar", |f| map::compare_scalar(f, map::is_ge)),
    ("aten.bitwise_and.Tensor", |f| map::bitwise(f, |a, b| a & b)),
    ("aten.bitwise_or.Tensor", |f| map::bitwise(f, |a, b| a | b)),
    ("aten.logical_and.default", |f| map::logical(f, |a, b| a && b)),
    ("aten.logical_or.default", |f| map::logical(f, |a, b| a || b)),
    ("aten.where.self", map::select),
    // Binary operators fused with a clamp, of release 1.0.
    ("et_vk.binary_add_with_clamp.default", |f| map::binary_with_clamp(f, |a, b| a + b)),
    ("et_vk.binary_sub_with_clamp.default", |f| map::binary_with_clamp(f, |a, b| a - b)),
    ("et_vk.binary_mul_with_clamp.default", |f| map::binary_with_clamp(f, |a, b| a * b)),
    ("et_vk.binary_div_with_clamp.default", |f| map::binary_with_clamp(f, |a, b| a / b)),
    ("et_vk.clamp_with_binary_add.default", |f| map::clamp_with_binary(f, |a, b| a + b)),
    ("et_vk.clamp_with_binary_sub.default", |f| map::clamp_with_binary(f, |a, b| a - b)),
    ("et_vk.clamp_with_binary_mul.default", |f| map::clamp_with_binary(f, |a, b| a * b)),
    ("et_vk.clamp_with_binary_div.default", |f| map::clamp_with_binary(f, |a, b| a / b)),
    // Views.
    ("aten.view_copy.default", view::view),
    ("aten.squeeze_copy.dims", view::squeeze),
    ("aten.unsqueeze_copy.default", view::unsqueeze),
    ("aten.permute_copy.default", view::permute),
    ("aten.permute.default", view::permute),
    ("aten.transpose.int", view::transpose),
    ("aten.t_copy.default", view::t),
    ("aten.select_copy.int", view::select),
    ("aten.select.int", view::select),
    ("aten.slice_copy.Tensor", view::slice),
    ("aten.slice.Tensor", view::slice),
    ("aten.expand_copy.default", view::expand),
    // Copies.
    ("aten._to_copy.default", copy::cast),
    ("dim_order_ops._to_dim_order_copy.default", copy::cast),
    ("dim_order_ops._clone_dim_order.default", copy::copy),
    ("aten.clone.default", copy::copy),
    ("aten.alias_copy.default", copy::copy),
    ("aten.copy.default", copy::copy_from),
    (PREPACK, copy::prepack),
    ("aten.cat.default", copy::cat),
    ("aten.split_with_sizes_copy.default", copy::split_with_sizes),
    ("aten.split.Tensor", copy::split_tensor),
    ("aten.repeat.default", copy::repeat),
    ("aten.repeat_interleave.self_int", copy::repeat_interleave),
    ("aten.flip.default", copy::flip),
    ("aten.unfold_copy.default", copy::unfold),
    ("aten.constant_pad_nd.default", copy::pad),
    ("aten.pixel_shuffle.default", copy::pixel_shuffle),
    // Gathers.
    ("aten.gather.default", gather::gather),
    ("aten.index.Tensor", gather::index),
    ("aten.index_select.default", gather::index_select),
    ("aten.embedding.default", gather::embedding),
    ("et_vk.embedding_q4gsw.default", gather::embedding_q4gsw),
    ("quantized_decomposed.embedding_4bit.dtype", gather::embedding_4bit),
    // Fills.
    ("aten.full.default", fill::full),
    ("aten.full_like.default", fill::full_like),
    ("aten.zeros.default", |f| fill::constant(f, 0)),
    ("aten.zeros_like.default", |f| fill::constant_like(f, 0)),
    ("aten.ones.default", |f| fill::constant(f, 1)),
    ("aten.ones_like.default", |f| fill::constant_like(f, 1)),
    ("aten.scalar_tensor.default", fill::scalar_tensor),
    ("aten.arange.start_step", fill::arange),
    ("et_vk.grid_priors.default", fill::grid_priors),
    // Reductions, softmax and norms.
    ("aten.sum.dim_IntList", |f| reduce::reduce(f, 2, reduce::sum)),
    ("aten.mean.dim", |f| reduce::reduce(f, 2, reduce::mean)),
    ("aten.amax.default", |f| reduce::reduce(f, 2, reduce::max)),
    ("aten.amin.default", |f| reduce::reduce(f, 2, reduce::min)),
    ("aten.argmax.default", |f| reduce::arg(f, |x, best| x > best)),
    ("aten.argmin.default", |f| reduce::arg(f, |x, best| x < best)),
    ("aten.var.dim", reduce::var),
    ("aten._softmax.default", |f| softmax::rows(f, softmax::softmax)),
    ("aten._log_softmax.default", |f| softmax::rows(f, softmax::log_softmax)),
    ("et_vk.rms_norm.default", norm::et_vk_rms_norm),
    ("aten.rms_norm.default", norm::aten_rms_norm),
    ("aten.native_layer_norm.default", norm::layer_norm),
    ("aten.native_group_norm.default", norm::group_norm),
    ("aten._native_batch_norm_legit_no_training.default", norm::batch_norm),
    // Matrix products.
    ("aten.mm.default", matmul::mm),
    ("aten.bmm.default", matmul::bmm),
    ("aten.addmm.default", matmul::addmm),
    ("aten.linear.default", matmul::linear),
    ("et_vk.linear_dW.default", matmul::weight_gradient),
    ("aten._weight_int8pack_mm.default", linear_q::q8csw),
    ("et_vk.linear_q8csw.default", linear_q::q8csw),
    ("et_vk.linear_qcs4w.default", linear_q::qcs4w),
    ("et_vk.linear_q8ta_q8csw.default", linear_q::q8ta_q8csw),
    ("et_vk.q8ta_linear.default", linear_q::q8ta),
    ("et_vk.q8ta_linear_gemv.default", linear_q::q8ta),
    ("et_vk.linear_q4gsw.default", linear_q::q4gsw),
    ("et_vk.q4gsw_linear.default", linear_q::q4gsw),
    ("et_vk.linear_dq8ca_q4gsw.default", linear_q::dq8ca_q4gsw),
    ("et_vk.linear_q4gsw_backward.default", linear_q::q4gsw_backward),
    ("et_vk.q4gsw_requant.default", linear_q::q4gsw_requant),
    ("et_vk.linear_weight_int4.default", linear_q::weight_int4),
    ("aten._weight_int4pack_mm.default", linear_q::weight_int4),
    // Convolution, pooling and resampling.
    ("aten.convolution.default", conv::convolution),
    ("et_vk.conv_with_clamp.default", conv::with_clamp),
    ("conv_with_clamp.default", conv::with_clamp),
    ("et_vk.conv1d_dw.default", conv::conv1d),
    ("et_vk.conv1d_pw.default", conv::conv1d),
    ("et_vk.conv2d_gemm.default", conv::convolution),
    ("et_vk.q8ta_conv2d.default", |f| conv::q8ta(f, Layout::Rows)),
    ("et_vk.q8ta_conv2d_pw.default", |f| conv::q8ta(f, Layout::Rows)),
    ("et_vk.q8ta_conv2d_general.default", |f| conv::q8ta(f, Layout::Rows)),
    ("et_vk.q8ta_conv2d_im2col.default", |f| conv::q8ta(f, Layout::Rows)),
    ("et_vk.q8ta_conv2d_dw.default", |f| conv::q8ta(f, Layout::Depthwise)),
    ("et_vk.q8ta_conv2d_transposed.default", conv::q8ta_transposed),
    ("et_vk.conv2d_q8ta_q8csw_q8to.default", |f| conv::q8ta_linear(f, Layout::Rows)),
    ("et_vk.conv2d_q8ta_q8csw_q8to_dw.default", |f| conv::q8ta_linear(f, Layout::Depthwise)),
    ("etvk.test_conv2d_q8ta_q8csw_q8to.default", conv::q8ta_test),
    ("et_vk.conv2d_q8ta_q8csw.default", conv::q8ta_q8csw),
    ("et_vk.conv2d_q8csw.default", conv::q8csw),
    ("aten.avg_pool2d.default", pool::average),
    ("aten.max_pool2d.default", |f| pool::maximum(f, false)),
    ("aten.max_pool2d_with_indices.default", |f| pool::maximum(f, true)),
    ("aten.upsample_nearest2d.vec", resample::nearest),
    ("aten.upsample_bilinear2d.vec", resample::bilinear),
    ("aten.grid_sampler_2d.default", resample::grid_sampler),
    // Training.
    ("et_vk.adamw_step.default", training::adamw_step),
    ("adamw_step.default", training::adamw_step),
    ("et_vk.fused_ce.default", training::fused_ce),
    // Quantisation.
    ("quantized_decomposed.quantize_per_tensor.default", |f| qparams::per_tensor(f, Quantise { bounds: 3 })),
    ("quantized_decomposed.quantize_per_tensor.tensor", |f| qparams::per_tensor_of_tensors(f, Quantise { bounds: 3 })),
    ("quantized_decomposed.quantize_per_channel.default", |f| qparams::per_channel(f, Quantise { bounds: 4 })),
    ("quantized_decomposed.quantize_per_token.default", |f| qparams::per_token(f, Quantise { bounds: 3 })),
    ("torchao.quantize_affine.default", |f| qparams::affine(f, Quantise { bounds: 5 })),
    ("quantized_decomposed.dequantize_per_tensor.default", |f| qparams::per_tensor(f, Dequantise)),
    ("quantized_decomposed.dequantize_per_tensor.tensor", |f| qparams::per_tensor_of_tensors(f, Dequantise)),
    ("quantized_decomposed.dequantize_per_channel.default", |f| qparams::per_channel(f, Dequantise)),
    ("quantized_decomposed.dequantize_per_token.default", |f| qparams::per_token(f, Dequantise)),
    ("torchao.dequantize_affine.default", |f| qparams::affine(f, Dequantise)),
    ("torchao.choose_qparams_affine.default", qparams::choose_affine),
    ("quantized_decomposed.choose_qparams.tensor", qparams::choose_tensor),
    ("quantized_decomposed.choose_qparams_per_token_asymmetric.default", qparams::choose_per_token),
    ("etvk.choose_qparams_per_row.default", qparams::choose_per_row),
    ("et_vk.q8ta_add.default", qparams::q8ta_add),
    ("et_vk.add_q8ta_q8ta_q8to.default", qparams::q8ta_add),
    ("et_vk.q8ta_relu.default", qparams::q8ta_relu),
    ("et_vk.q8ta_pixel_shuffle.default", qparams::q8ta_pixel_shuffle),
    // The same without namespace, as release 0.7 has them.
    ("quantize_per_tensor.default", |f| qparams::per_tensor(f, Quantise { bounds: 3 })),
    ("quantize_per_token.default", |f| qparams::per_token(f, Quantise { bounds: 3 })),
    ("dequantize_per_tensor.default", |f| qparams::per_tensor(f, Dequantise)),
    ("dequantize_per_token.default", |f| qparams::per_token(f, Dequantise)),
    ("choose_qparams.tensor", qparams::choose_tensor),
    ("choose_qparams_per_token_asymmetric.default", qparams::choose_per_token),
    // Attention and rotary embeddings.
    ("sdpa_with_kv_cache.default", sdpa::with_kv_cache),
    ("llama.sdpa_with_kv_cache.default", sdpa::with_kv_cache),
    ("update_cache.default", sdpa::update_cache),
    ("llama.update_cache.default", sdpa::update_cache),
    ("custom_sdpa.default", sdpa::custom),
    ("llama.custom_sdpa.default", sdpa::custom),
    ("et_vk.sdpa.default", sdpa::plain),
    ("testing.compute_attn_weight_with_kv_cache.default", sdpa::attention_weights),
    ("gemma_sdpa_with_kv_cache.default", sdpa::gemma_with_kv_cache),
    ("et_vk.gemma_sdpa_with_kv_cache.default", sdpa::gemma_with_kv_cache),
    ("gemma_custom_sdpa.default", sdpa::gemma_custom),
    ("et_vk.gemma_custom_sdpa.default", sdpa::gemma_custom),
    ("et_vk.apply_rotary_emb.default", rope::pairs),
    ("et_vk.apply_rotary_emb_hf.default", rope::halves),
    ("et_vk.apply_rotary_emb_interleaved.default", rope::interleaved),
    // Integers.
    ("sym_size.int", symbolic::sym_size),
    ("add", |f| symbolic::binary(f, i64::wrapping_add)),
    ("sub", |f| symbolic::binary(f, i64::wrapping_sub)),
    ("mul", |f| symbolic::binary(f, i64::wrapping_mul)),
    ("floordiv", symbolic::floordiv),
    ("lt", |f| symbolic::compare(f, i64::lt)),
    ("le", |f| symbolic::compare(f, i64::le)),
    ("gt", |f| symbolic::compare(f, i64::gt)),
    ("ge", |f| symbolic::compare(f, i64::ge)),
    ("eq", |f| symbolic::compare(f, i64::eq)),
    ("et_vk.select_as_symint.default", symbolic::select_as_symint),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_once() {
        let mut names: Vec<&str> = OPERATORS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let total = names.len();
        names.dedup();
        assert_eq!(names.len(), total);
    }
}
