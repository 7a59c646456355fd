//! Every serialised operator name, once, with what lowers it.

use etvk_kernels::map::MapOp;
use etvk_kernels::reduce::ReduceOp;
use etvk_kernels::softmax::SoftmaxOp;

use super::call::{Call, Result};
use super::map::Twins;
use super::reduce::Forms;
use super::release::Release::{self, *};
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
    /// The first release that writes it.
    pub since: Release,
    /// The file that lowers it: `ops/<family>.rs`.
    pub family: &'static str,
    /// Argument positions the operator writes to.
    pub mutates: &'static [usize],
    lower: Lower,
}

impl Lower {
    const fn family(self) -> &'static str {
        match self {
            Self::BinaryClamp(_) | Self::ClampBinary(_) => "fused",
            Self::SumLike(_) | Self::Extremum(_) | Self::ArgExtremum(_) => "reduce",
            Self::Softmax(_) => "softmax",
            Self::Filled(_) | Self::Like(_) => "fill",
            _ => "map",
        }
    }
}

impl Operator {
    /// What its tensors may hold. Halves and doubles are floats; integers of any width are ints.
    #[must_use]
    pub fn types(&self) -> &'static str {
        match (self.lower, self.family) {
            (Lower::Unary(_) | Lower::UnaryParameter(_) | Lower::Softmax(_), _) => "float",
            (Lower::Compare(_) | Lower::CompareScalar(_), _) => "float, int → bool",
            (Lower::Logical(_), _) => "any → bool",
            (Lower::Bitwise(_), _) => "int, bool",
            (Lower::ArgExtremum(_), _) => "float, int → int",
            (Lower::Filled(_) | Lower::Like(_), _) | (_, "view" | "repeat" | "pad" | "fill") => "any",
            (Lower::Call(_), "map") => "float, int, bool",
            (_, "gather") => "any, by int",
            (_, "linear_q" | "nibbles") => "float, codes",
            (_, "conv" | "pixel_shuffle") => "float, int8 codes",
            (_, "quantize") => "float, codes",
            (_, "qparams") => "float, codes, parameters",
            (_, "symbolic") => "symbolic integers",
            (_, "training") => "float, int labels",
            (_, "fused" | "map" | "reduce") => "float, int",
            _ => "float",
        }
    }

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

const fn op(name: &'static str, since: Release, lower: Lower) -> Operator {
    Operator { name, since, family: lower.family(), mutates: &[], lower }
}

/// An operator that the function of a family's module lowers, and the arguments it writes to.
macro_rules! call {
    ($name:literal, $since:ident, $family:ident::$function:ident) => {
        call!($name, $since, $family::$function, writes & [])
    };
    ($name:literal, $since:ident, $family:ident::$function:ident, writes $mutates:expr) => {
        Operator {
            name: $name,
            since: $since,
            family: stringify!($family),
            mutates: $mutates,
            lower: Lower::Call($family::$function),
        }
    };
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
    call!("_assert_scalar.default", V1_5, symbolic::assertion),
    call!("adamw_step.default", Unwritten, training::adamw_step, writes &[0, 1, 2]),
    call!("add", V0_7, symbolic::add),
    call!("aten._assert_scalar.default", Unwritten, symbolic::assertion),
    op("aten._log_softmax.default", V0_5, Lower::Softmax(SoftmaxOp::LogSoftmax)),
    call!("aten._native_batch_norm_legit_no_training.default", V0_5, norm::batch_norm),
    op("aten._softmax.default", V0_5, Lower::Softmax(SoftmaxOp::Softmax)),
    call!("aten._to_copy.default", V0_5, map::to_copy),
    call!("aten._weight_int4pack_mm.default", V0_3, nibbles::weight_int4),
    call!("aten._weight_int8pack_mm.default", V0_5, linear_q::int8pack),
    op("aten.abs.default", V0_5, Lower::UnaryAny(twins(MapOp::AbsF, MapOp::AbsI))),
    op("aten.add.Tensor", V0_5, Lower::BinaryAlpha(twins(MapOp::AddF, MapOp::AddI))),
    call!("aten.addmm.default", V0_5, matmul::addmm),
    call!("aten.alias_copy.default", V1_5, view::identity),
    op("aten.amax.default", V0_5, Lower::Extremum(forms(ReduceOp::AmaxF, ReduceOp::AmaxI))),
    op("aten.amin.default", V0_5, Lower::Extremum(forms(ReduceOp::AminF, ReduceOp::AminI))),
    call!("aten.arange.start_step", V0_5, fill::arange),
    op("aten.argmax.default", V1_1, Lower::ArgExtremum(forms(ReduceOp::ArgmaxF, ReduceOp::ArgmaxI))),
    op("aten.argmin.default", V1_1, Lower::ArgExtremum(forms(ReduceOp::ArgminF, ReduceOp::ArgminI))),
    call!("aten.avg_pool2d.default", V0_5, pool::average),
    op("aten.bitwise_and.Tensor", V1_2, Lower::Bitwise(MapOp::BitAnd)),
    call!("aten.bitwise_not.default", V1_3, map::bitwise_not),
    op("aten.bitwise_or.Tensor", V1_4, Lower::Bitwise(MapOp::BitOr)),
    op("aten.bitwise_xor.Tensor", Unwritten, Lower::Bitwise(MapOp::BitXor)),
    call!("aten.bmm.default", V0_5, matmul::mm),
    call!("aten.cat.default", V0_5, view::cat),
    op("aten.ceil.default", Unwritten, Lower::Unary(MapOp::Ceil)),
    call!("aten.clamp.default", V0_5, map::clamp),
    call!("aten.clone.default", V0_5, view::identity),
    call!("aten.constant_pad_nd.default", V0_5, pad::constant),
    call!("aten.convolution.default", V0_5, conv::convolution),
    call!("aten.copy.default", V1_5, repeat::copy),
    op("aten.cos.default", V0_5, Lower::Unary(MapOp::Cos)),
    call!("aten.div.Tensor", V0_5, map::divide),
    call!("aten.div.Tensor_mode", V0_5, map::divide_mode),
    call!("aten.embedding.default", V0_5, gather::embedding),
    op("aten.eq.Scalar", V1_4, Lower::CompareScalar(EQ)),
    op("aten.eq.Tensor", V1_0, Lower::Compare(EQ)),
    op("aten.erf.default", Unwritten, Lower::Unary(MapOp::Erf)),
    op("aten.exp.default", V0_5, Lower::Unary(MapOp::Exp)),
    call!("aten.expand_copy.default", V1_0, view::expand),
    call!("aten.flip.default", V0_5, view::flip),
    op("aten.floor.default", Unwritten, Lower::Unary(MapOp::Floor)),
    call!("aten.full.default", V0_5, fill::full),
    call!("aten.full_like.default", V0_5, fill::full_like),
    call!("aten.gather.default", V1_1, gather::gather_elements),
    op("aten.ge.Scalar", V1_5, Lower::CompareScalar(GE)),
    op("aten.ge.Tensor", V1_0, Lower::Compare(GE)),
    call!("aten.gelu.default", V0_5, map::gelu),
    call!("aten.grid_sampler_2d.default", V1_4, resample::grid_sampler),
    op("aten.gt.Scalar", V1_5, Lower::CompareScalar(GT)),
    op("aten.gt.Tensor", V1_0, Lower::Compare(GT)),
    op("aten.hardshrink.default", V0_5, Lower::UnaryParameter(MapOp::Hardshrink)),
    op("aten.hardsigmoid.default", V0_5, Lower::Unary(MapOp::Hardsigmoid)),
    op("aten.hardswish.default", V0_5, Lower::Unary(MapOp::Hardswish)),
    call!("aten.hardtanh.default", V0_5, map::clamp),
    call!("aten.index.Tensor", V1_2, gather::index_tensors),
    call!("aten.index_select.default", V0_5, gather::index_select),
    op("aten.le.Scalar", V1_5, Lower::CompareScalar(LE)),
    op("aten.le.Tensor", V1_0, Lower::Compare(LE)),
    op("aten.leaky_relu.default", V0_6, Lower::UnaryParameter(MapOp::LeakyRelu)),
    call!("aten.linear.default", V0_5, matmul::linear),
    op("aten.log.default", Unwritten, Lower::Unary(MapOp::Log)),
    op("aten.log10.default", V1_5, Lower::Unary(MapOp::Log10)),
    op("aten.logical_and.default", V1_3, Lower::Logical(MapOp::LogicalAnd)),
    call!("aten.logical_not.default", V1_5, map::logical_not),
    op("aten.logical_or.default", V1_4, Lower::Logical(MapOp::LogicalOr)),
    op("aten.logical_xor.default", Unwritten, Lower::Logical(MapOp::LogicalXor)),
    op("aten.lt.Scalar", V1_5, Lower::CompareScalar(LT)),
    op("aten.lt.Tensor", V1_0, Lower::Compare(LT)),
    call!("aten.max_pool2d.default", V1_0, pool::max),
    call!("aten.max_pool2d_with_indices.default", V0_5, pool::max_with_indices),
    op("aten.maximum.default", Unwritten, Lower::Binary(twins(MapOp::MaxF, MapOp::MaxI))),
    op("aten.mean.dim", V0_5, Lower::SumLike(forms(ReduceOp::MeanF, ReduceOp::SumI))),
    op("aten.minimum.default", V0_5, Lower::Binary(twins(MapOp::MinF, MapOp::MinI))),
    call!("aten.mm.default", V0_5, matmul::mm),
    op("aten.mul.Tensor", V0_5, Lower::Binary(twins(MapOp::MulF, MapOp::MulI))),
    call!("aten.native_group_norm.default", V0_7, norm::group_norm),
    call!("aten.native_layer_norm.default", V0_5, norm::layer_norm),
    op("aten.ne.Scalar", V1_5, Lower::CompareScalar(NE)),
    op("aten.ne.Tensor", Unwritten, Lower::Compare(NE)),
    op("aten.neg.default", V0_5, Lower::UnaryAny(twins(MapOp::NegF, MapOp::NegI))),
    op("aten.ones.default", V0_5, Lower::Filled(1.0)),
    op("aten.ones_like.default", V0_5, Lower::Like(1.0)),
    call!("aten.permute.default", V0_5, view::permute),
    call!("aten.permute_copy.default", V0_5, view::permute),
    call!("aten.pixel_shuffle.default", V1_3, pixel_shuffle::pixel_shuffle),
    call!("aten.pow.Tensor_Scalar", V1_1, map::pow_scalar),
    op("aten.pow.Tensor_Tensor", V0_5, Lower::Binary(twins(MapOp::PowF, MapOp::PowI))),
    op("aten.reciprocal.default", Unwritten, Lower::Unary(MapOp::Reciprocal)),
    call!("aten.relu.default", V0_5, map::relu),
    call!("aten.relu6.default", V1_0, map::relu6),
    call!("aten.repeat.default", V0_5, repeat::repeat),
    call!("aten.repeat_interleave.self_int", V0_5, repeat::repeat_interleave),
    call!("aten.rms_norm.default", Fork, norm::aten_rms_norm),
    op("aten.round.default", V0_7, Lower::Unary(MapOp::Round)),
    op("aten.rsqrt.default", V0_5, Lower::Unary(MapOp::Rsqrt)),
    call!("aten.scalar_tensor.default", V1_0, fill::scalar_tensor),
    call!("aten.select.int", Unwritten, view::select),
    call!("aten.select_copy.int", V0_5, view::select),
    op("aten.sigmoid.default", V0_5, Lower::Unary(MapOp::Sigmoid)),
    op("aten.sin.default", V0_5, Lower::Unary(MapOp::Sin)),
    call!("aten.slice.Tensor", Unwritten, view::slice),
    call!("aten.slice_copy.Tensor", V0_5, view::slice),
    call!("aten.split.Tensor", V0_3, view::split),
    call!("aten.split_with_sizes_copy.default", V0_5, view::split_with_sizes),
    op("aten.sqrt.default", V0_5, Lower::Unary(MapOp::Sqrt)),
    call!("aten.squeeze_copy.dims", V0_5, view::squeeze),
    op("aten.sub.Tensor", V0_5, Lower::BinaryAlpha(twins(MapOp::SubF, MapOp::SubI))),
    op("aten.sum.dim_IntList", V0_5, Lower::SumLike(forms(ReduceOp::SumF, ReduceOp::SumI))),
    call!("aten.sym_constrain_range_for_size.default", Unwritten, symbolic::assertion),
    call!("aten.t_copy.default", V1_5, view::matrix_transpose),
    op("aten.tan.default", V0_7, Lower::Unary(MapOp::Tan)),
    op("aten.tanh.default", V0_5, Lower::Unary(MapOp::Tanh)),
    call!("aten.transpose.int", Unwritten, view::transpose),
    op("aten.trunc.default", Unwritten, Lower::Unary(MapOp::Trunc)),
    call!("aten.unfold_copy.default", V1_5, repeat::unfold),
    call!("aten.unsqueeze_copy.default", V0_5, view::unsqueeze),
    call!("aten.upsample_bilinear2d.vec", V0_7, resample::bilinear),
    call!("aten.upsample_nearest2d.vec", V0_5, resample::nearest),
    call!("aten.var.dim", V0_7, reduce::var),
    call!("aten.view_copy.default", V0_5, view::view_copy),
    call!("aten.where.self", V0_7, map::where_self),
    op("aten.zeros.default", V0_5, Lower::Filled(0.0)),
    op("aten.zeros_like.default", V0_5, Lower::Like(0.0)),
    call!("choose_qparams.tensor", V0_7, qparams::choose_tensor),
    call!("choose_qparams_per_token_asymmetric.default", V0_7, qparams::choose_per_token),
    call!("conv_with_clamp.default", V0_5, conv::convolution),
    call!("custom_sdpa.default", Unwritten, sdpa::custom),
    call!("dequantize_per_tensor.default", V0_7, quantize::dequantize_per_tensor),
    call!("dequantize_per_token.default", V0_7, quantize::dequantize_per_token),
    call!("dim_order_ops._clone_dim_order.default", V1_5, view::identity),
    call!("dim_order_ops._to_dim_order_copy.default", V1_1, map::to_copy),
    call!("eq", V1_5, symbolic::eq),
    call!("et_vk.adamw_step.default", V1_4, training::adamw_step, writes &[0, 1, 2]),
    call!("et_vk.add_q8ta_q8ta_q8to.default", V1_1, qparams::q8ta_add),
    call!("et_vk.apply_rotary_emb.default", V0_5, rope::pairs),
    call!("et_vk.apply_rotary_emb_hf.default", V1_3, rope::halves),
    call!("et_vk.apply_rotary_emb_interleaved.default", V1_3, rope::interleaved),
    op("et_vk.binary_add_with_clamp.default", V1_0, Lower::BinaryClamp(twins(MapOp::AddF, MapOp::AddI))),
    op("et_vk.binary_div_with_clamp.default", V1_0, Lower::BinaryClamp(twins(MapOp::DivF, MapOp::DivTruncI))),
    op("et_vk.binary_mul_with_clamp.default", V1_0, Lower::BinaryClamp(twins(MapOp::MulF, MapOp::MulI))),
    op("et_vk.binary_sub_with_clamp.default", V1_0, Lower::BinaryClamp(twins(MapOp::SubF, MapOp::SubI))),
    op("et_vk.clamp_with_binary_add.default", V1_0, Lower::ClampBinary(twins(MapOp::AddF, MapOp::AddI))),
    op("et_vk.clamp_with_binary_div.default", V1_0, Lower::ClampBinary(twins(MapOp::DivF, MapOp::DivTruncI))),
    op("et_vk.clamp_with_binary_mul.default", V1_0, Lower::ClampBinary(twins(MapOp::MulF, MapOp::MulI))),
    op("et_vk.clamp_with_binary_sub.default", V1_0, Lower::ClampBinary(twins(MapOp::SubF, MapOp::SubI))),
    call!("et_vk.conv1d_dw.default", Unwritten, conv::conv1d),
    call!("et_vk.conv1d_pw.default", Unwritten, conv::conv1d),
    call!("et_vk.conv2d_gemm.default", Unwritten, conv::convolution),
    call!("et_vk.conv2d_q8csw.default", Unwritten, conv::q8csw),
    call!("et_vk.conv2d_q8ta_q8csw.default", V1_0, conv::q8ta_q8csw),
    call!("et_vk.conv2d_q8ta_q8csw_q8to.default", V1_1, conv::q8to),
    call!("et_vk.conv2d_q8ta_q8csw_q8to_dw.default", V1_1, conv::q8to_depthwise),
    call!("et_vk.conv_with_clamp.default", V0_5, conv::convolution),
    call!("et_vk.embedding_q4gsw.default", V1_3, gather::embedding_q4gsw),
    call!("et_vk.fused_ce.default", V1_4, training::fused_ce),
    call!("et_vk.gemma_custom_sdpa.default", Fork, sdpa::gemma_custom),
    call!("et_vk.gemma_sdpa_with_kv_cache.default", Fork, sdpa::gemma_with_kv_cache, writes &[3, 4]),
    call!("et_vk.grid_priors.default", V0_5, grid_priors::priors),
    call!("et_vk.linear_dW.default", V1_4, training::weight_gradient),
    call!("et_vk.linear_dq8ca_q4gsw.default", V1_0, linear_q::dq8ca_q4gsw),
    call!("et_vk.linear_q4gsw.default", V1_0, linear_q::q4gsw),
    call!("et_vk.linear_q4gsw_backward.default", V1_4, nibbles::backward),
    call!("et_vk.linear_q8csw.default", V1_0, linear_q::q8csw),
    call!("et_vk.linear_q8ta_q8csw.default", V1_0, linear_q::q8ta_q8csw),
    call!("et_vk.linear_qcs4w.default", V0_7, linear_q::qcs4w),
    call!("et_vk.linear_weight_int4.default", V0_5, nibbles::weight_int4),
    call!("et_vk.prepack.default", V0_5, view::prepack),
    call!("et_vk.q4gsw_linear.default", Unwritten, linear_q::q4gsw),
    call!("et_vk.q4gsw_requant.default", V1_4, nibbles::requant),
    call!("et_vk.q8ta_add.default", V1_2, qparams::q8ta_add),
    call!("et_vk.q8ta_conv2d.default", V1_2, conv::q8ta),
    call!("et_vk.q8ta_conv2d_dw.default", V1_2, conv::q8ta_depthwise),
    call!("et_vk.q8ta_conv2d_general.default", Unwritten, conv::q8ta),
    call!("et_vk.q8ta_conv2d_im2col.default", Unwritten, conv::q8ta),
    call!("et_vk.q8ta_conv2d_pw.default", V1_2, conv::q8ta),
    call!("et_vk.q8ta_conv2d_transposed.default", V1_3, conv::q8ta_transposed),
    call!("et_vk.q8ta_linear.default", V1_2, linear_q::q8ta),
    call!("et_vk.q8ta_linear_gemv.default", V1_2, linear_q::q8ta),
    call!("et_vk.q8ta_pixel_shuffle.default", V1_3, pixel_shuffle::q8ta_pixel_shuffle),
    call!("et_vk.q8ta_relu.default", V1_2, qparams::q8ta_relu),
    call!("et_vk.rms_norm.default", V1_3, norm::rms_norm),
    call!("et_vk.sdpa.default", V1_3, sdpa::plain),
    call!("et_vk.select_as_symint.default", V1_1, symbolic::select_as_symint),
    call!("etvk.choose_qparams_per_row.default", Unwritten, qparams::choose_per_row),
    call!("etvk.test_conv2d_q8ta_q8csw_q8to.default", Unwritten, conv::q8to_test),
    call!("floordiv", V1_3, symbolic::floordiv),
    call!("ge", V1_5, symbolic::ge),
    call!("gemma_custom_sdpa.default", Fork, sdpa::gemma_custom),
    call!("gemma_sdpa_with_kv_cache.default", Fork, sdpa::gemma_with_kv_cache, writes &[3, 4]),
    call!("gt", V1_5, symbolic::gt),
    call!("le", V1_5, symbolic::le),
    call!("llama.custom_sdpa.default", V0_6, sdpa::custom),
    call!("llama.sdpa_with_kv_cache.default", Unwritten, sdpa::with_kv_cache, writes &[3, 4]),
    call!("llama.update_cache.default", Unwritten, sdpa::update_cache, writes &[1]),
    call!("lt", V1_5, symbolic::lt),
    call!("mul", V1_3, symbolic::mul),
    call!("quantize_per_tensor.default", V0_7, quantize::quantize_per_tensor),
    call!("quantize_per_token.default", V0_7, quantize::quantize_per_token),
    call!("quantized_decomposed.choose_qparams.tensor", V1_0, qparams::choose_tensor),
    call!("quantized_decomposed.choose_qparams_per_token_asymmetric.default", V1_0, qparams::choose_per_token),
    call!("quantized_decomposed.dequantize_per_channel.default", V1_0, quantize::dequantize_per_channel),
    call!("quantized_decomposed.dequantize_per_tensor.default", V1_1, quantize::dequantize_per_tensor),
    call!("quantized_decomposed.dequantize_per_tensor.tensor", V1_0, quantize::dequantize_per_tensor_of_tensors),
    call!("quantized_decomposed.dequantize_per_token.default", V1_0, quantize::dequantize_per_token),
    call!("quantized_decomposed.embedding_4bit.dtype", V1_5, gather::embedding_4bit),
    call!("quantized_decomposed.quantize_per_channel.default", V1_0, quantize::quantize_per_channel),
    call!("quantized_decomposed.quantize_per_tensor.default", V1_1, quantize::quantize_per_tensor),
    call!("quantized_decomposed.quantize_per_tensor.tensor", V1_0, quantize::quantize_per_tensor_of_tensors),
    call!("quantized_decomposed.quantize_per_token.default", V1_0, quantize::quantize_per_token),
    call!("sdpa_with_kv_cache.default", V0_5, sdpa::with_kv_cache, writes &[3, 4]),
    call!("sub", V1_3, symbolic::sub),
    call!("sym_constrain_range_for_size.default", V1_5, symbolic::assertion),
    call!("sym_size.int", V0_7, symbolic::sym_size),
    call!("testing.compute_attn_weight_with_kv_cache.default", Unwritten, attention_weights::with_kv_cache, writes &[3, 4]),
    call!("torchao.choose_qparams_affine.default", V1_0, qparams::choose_affine),
    call!("torchao.dequantize_affine.default", V1_0, quantize::dequantize_affine),
    call!("torchao.quantize_affine.default", V1_0, quantize::quantize_affine),
    call!("update_cache.default", V0_6, sdpa::update_cache, writes &[1]),
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
