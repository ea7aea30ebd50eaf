# Read by cpack for each generator.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own, in the first line of its description
else()
  list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 weir_build)
  set(CPACK_INSTALL_CMAKE_PROJECTS "${weir_build};weir;ALL;/;${weir_build};weir;bundled;/")
endif()
