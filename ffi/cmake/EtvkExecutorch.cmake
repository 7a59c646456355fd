# What compiling and linking against an installed ExecuTorch takes. Its own targets need CMake 3.28; older ones have
# variables only, which are the same for both, so these are used everywhere. A source install has them as targets.

# etvk_use_executorch(TARGET [LIBRARY…]): the runtime, and more of ExecuTorch's libraries by name (kernels_optimized).
function(etvk_use_executorch target)
  if(NOT EXECUTORCH_RUNTIME_LIBRARY_DIR)
    target_link_libraries(${target} PRIVATE executorch ${ARGN})
    target_compile_features(${target} PRIVATE cxx_std_17)
    return()
  endif()
  target_include_directories(${target} SYSTEM PRIVATE ${EXECUTORCH_INCLUDE_DIRS})
  set(definitions ${EXECUTORCH_COMPILE_DEFINITIONS})
  # It asks for the thread pool's library, which is only there for kernels.
  list(REMOVE_ITEM definitions ET_USE_THREADPOOL)
  target_compile_definitions(${target} PRIVATE ${definitions})
  target_compile_features(${target} PRIVATE cxx_std_${EXECUTORCH_CXX_STANDARD})
  set(folder "${EXECUTORCH_RUNTIME_LIBRARY_DIR}")
  target_link_libraries(${target} PRIVATE "${folder}/libexecutorch.so")
  foreach(name IN LISTS ARGN)
    # Libraries that only register something: nothing refers to them, and the linker would drop them.
    target_link_libraries(
      ${target} PRIVATE "-Wl,--push-state,--no-as-needed" "${folder}/libexecutorch_${name}.so" "-Wl,--pop-state")
  endforeach()
  set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH "${folder}")
endfunction()
