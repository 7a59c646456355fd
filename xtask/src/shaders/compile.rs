//! The two ways to turn GLSL into SPIR-V.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A compiler of compute shaders for Vulkan 1.1 (SPIR-V 1.3), optimising for speed, without debug information.
pub(crate) enum Compiler {
    /// A `glslc` program: quick to have, for work on shaders.
    Glslc { path: PathBuf, name: String },
    /// The `shaderc` crate: what committed modules are made with.
    #[cfg(feature = "shaders")]
    Shaderc(shaderc::Compiler),
}

impl Compiler {
    /// `glslc` if a path is given, else the `shaderc` crate. When this program was built without the crate, runs
    /// the command again in one that has it and returns `None`.
    pub(crate) fn open(glslc: Option<PathBuf>, args: &[String]) -> Result<Option<Self>> {
        match glslc {
            Some(path) => {
                let output = Command::new(&path).arg("--version").output();
                let output = output.with_context(|| format!("cannot run {}", path.display()))?;
                let version = String::from_utf8_lossy(&output.stdout);
                let name = format!("glslc {}", version.lines().next().unwrap_or_default().trim());
                Ok(Some(Self::Glslc { path, name }))
            }
            None => Self::library(args),
        }
    }

    #[cfg(feature = "shaders")]
    fn library(_args: &[String]) -> Result<Option<Self>> {
        Ok(Some(Self::Shaderc(shaderc::Compiler::new()?)))
    }

    #[cfg(not(feature = "shaders"))]
    fn library(args: &[String]) -> Result<Option<Self>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["run", "--quiet", "--package", "xtask", "--features", "shaders", "--", "shaders"])
            .args(args)
            .status()?;
        ensure!(status.success(), "cargo xtask shaders failed: {status}");
        Ok(None)
    }

    /// Written to the manifest: modules of different compilers differ.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Glslc { name, .. } => name,
            #[cfg(feature = "shaders")]
            Self::Shaderc(_) => "shaderc crate",
        }
    }

    /// Whether what it makes is for work in progress; it leaves up-to-date modules of the other compiler alone.
    pub(crate) fn is_provisional(&self) -> bool {
        matches!(self, Self::Glslc { .. })
    }

    /// The SPIR-V of `shaders/file`; includes are looked up from `shaders`.
    pub(crate) fn compile(&self, shaders: &Path, file: &str, defines: &[String]) -> Result<Vec<u8>> {
        match self {
            Self::Glslc { path, .. } => {
                let output = Command::new(path)
                    .current_dir(shaders)
                    .args(["--target-env=vulkan1.1", "-O", "-Werror", "-fshader-stage=compute", "-I", "."])
                    .args(defines.iter().map(|define| format!("-D{define}")))
                    .args([file, "-o", "-"])
                    .output()?;
                ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim_end());
                Ok(output.stdout)
            }
            #[cfg(feature = "shaders")]
            Self::Shaderc(compiler) => with_library(compiler, shaders, file, defines),
        }
    }
}

#[cfg(feature = "shaders")]
fn with_library(
    compiler: &shaderc::Compiler,
    shaders: &Path,
    file: &str,
    defines: &[String],
) -> Result<Vec<u8>> {
    use shaderc::{CompileOptions, EnvVersion, OptimizationLevel, ResolvedInclude, ShaderKind, TargetEnv};

    let text = std::fs::read_to_string(shaders.join(file))?;
    let mut options = CompileOptions::new()?;
    options.set_target_env(TargetEnv::Vulkan, EnvVersion::Vulkan1_1 as u32);
    options.set_optimization_level(OptimizationLevel::Performance);
    options.set_warnings_as_errors();
    for define in defines {
        let (name, value) = define.split_once('=').map_or((define.as_str(), None), |(n, v)| (n, Some(v)));
        options.add_macro_definition(name, value);
    }
    options.set_include_callback(|name, _, _, _| {
        let content =
            std::fs::read_to_string(shaders.join(name)).map_err(|error| format!("{name}: {error}"))?;
        Ok(ResolvedInclude { resolved_name: name.to_owned(), content })
    });
    let artifact = compiler.compile_into_spirv(&text, ShaderKind::Compute, file, "main", Some(&options))?;
    Ok(artifact.as_binary_u8().to_vec())
}
