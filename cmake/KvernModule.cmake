# One static library per folder of src/, and one test program per folder from the *_test.cc files beside the code.

add_library(kvern_flags INTERFACE)
# -ffp-contract=off: a multiply and an add are fused only where the source says fma (docs/numerics.md).
target_compile_options(kvern_flags INTERFACE -Wall -Wextra -Wshadow -ffp-contract=off)
if(KVERN_WERROR)
  target_compile_options(kvern_flags INTERFACE -Werror)
endif()
if(KVERN_SANITIZE)
  # Attention for any head size only: copies for certain sizes differ in a constant and take minutes to instrument.
  target_compile_definitions(kvern_flags INTERFACE KVERN_ANY_HEAD_DIM_ONLY)
  target_compile_options(kvern_flags INTERFACE -fsanitize=${KVERN_SANITIZE} -fno-omit-frame-pointer -g1
    $<$<CXX_COMPILER_ID:GNU>:-fno-var-tracking>)  # Tracking variables through the kernels takes g++ minutes.
  target_link_options(kvern_flags INTERFACE -fsanitize=${KVERN_SANITIZE})
  if(KVERN_SANITIZE MATCHES undefined)
    target_compile_options(kvern_flags INTERFACE -fno-sanitize-recover=undefined
      $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)  # Before 17 its mark cannot stand before a coroutine.
  endif()
endif()
if(KVERN_FUZZ)
  # Coverage of the modules guides the fuzzer; the fuzz programs themselves add its main function.
  target_compile_options(kvern_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# kvern_module(NAME [PROGRAM_ONLY] [DEPS module...] [LIBS library...] [EXCLUDE regex]). PROGRAM_ONLY: not part of the
# installed library. EXCLUDE leaves files out, tests too.
function(kvern_module name)
  cmake_parse_arguments(arg "PROGRAM_ONLY" "EXCLUDE" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME kvern_${name})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:include>)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:kvern_flags> PUBLIC ${arg_DEPS} Threads::Threads PRIVATE ${arg_LIBS})
  if(NOT arg_PROGRAM_ONLY)
    set_property(GLOBAL APPEND PROPERTY KVERN_MODULES ${name})
  endif()
  if(KVERN_TESTS AND tests)
    kvern_test(${name}_test SOURCES ${tests} DEPS ${name})
  endif()
endfunction()

# kvern_test(NAME SOURCES file... [DEPS target...] [LABEL label]): a GoogleTest program, each TEST a ctest entry.
# Labels: unit (the default), slow (minutes under a sanitizer), model (needs the real model, else skipped).
function(kvern_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  # Test code itself need not be fast, and most of the time of a full build is its optimisation.
  target_compile_options(${name} PRIVATE $<IF:$<CONFIG:Release>,-O1,-O0>)
  target_link_libraries(${name} PRIVATE kvern_flags ${arg_DEPS} test_support GTest::gmock GTest::gtest_main)
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT 900)
endfunction()
