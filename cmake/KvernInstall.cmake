# cmake --install, and find_package(kvern) for those who use the library: link kvern::kvern.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(kvern_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvern)
get_property(kvern_modules GLOBAL PROPERTY KVERN_MODULES)

# The library as its users see it. The modules behind it are static; their order is CMake's business.
add_library(kvern_library INTERFACE)
add_library(kvern::kvern ALIAS kvern_library)
set_target_properties(kvern_library PROPERTIES EXPORT_NAME kvern)
target_compile_features(kvern_library INTERFACE cxx_std_20)
if(TARGET engine)
  target_link_libraries(kvern_library INTERFACE engine)
else()
  target_link_libraries(kvern_library INTERFACE ${kvern_modules})
endif()

install(TARGETS kvern_library ${kvern_modules} EXPORT kvernTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kvern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT kvernTargets NAMESPACE kvern:: DESTINATION ${kvern_config_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kvernConfig.cmake.in
  ${PROJECT_BINARY_DIR}/kvernConfig.cmake INSTALL_DESTINATION ${kvern_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvernConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kvernConfig.cmake ${PROJECT_BINARY_DIR}/kvernConfigVersion.cmake
  DESTINATION ${kvern_config_dir})

# A program outside the source tree, built against an installed copy. Sanitizers would have to be its own choice too.
if(KVERN_TESTS AND TARGET engine AND NOT KVERN_SANITIZE)
  add_test(NAME InstallTest.AProgramOutsideTheTreeFindsAndLinksTheLibrary
    COMMAND ${PROJECT_SOURCE_DIR}/tests/install/install_test.sh ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
  set_tests_properties(InstallTest.AProgramOutsideTheTreeFindsAndLinksTheLibrary PROPERTIES TIMEOUT 300)
endif()
