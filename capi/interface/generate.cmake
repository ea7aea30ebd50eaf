# Sets WEIR_GENERATED, the folder of the files that only compilers and Python read. generate.py makes them. Release archives have
# them in `generated`.
set(WEIR_GENERATED ${PROJECT_SOURCE_DIR}/generated)
if(NOT EXISTS "${WEIR_GENERATED}/of_release")
  set(WEIR_GENERATED ${PROJECT_BINARY_DIR}/generated)
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    message(FATAL_ERROR "Building from a git checkout needs Python 3.11, or an older one with the module tomli: install python3, or build from a release archive, which does not need it")
  endif()
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/generate.py --build ${WEIR_GENERATED} RESULT_VARIABLE failed ERROR_VARIABLE why)
  if(failed)
    message(FATAL_ERROR "capi/interface/generate.py --build failed. It needs Python 3.11, or an older one with the module tomli:\n${why}")
  endif()
  file(GLOB weir_interface ${CMAKE_CURRENT_LIST_DIR}/*.py ${CMAKE_CURRENT_LIST_DIR}/interface.toml ${PROJECT_SOURCE_DIR}/include/weir/*.h ${PROJECT_SOURCE_DIR}/capi/fortran/weir*)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${weir_interface})
endif()

# Assembles the Python package for tests: WEIR_PYTHON goes into PYTHONPATH.
set(WEIR_PYTHON ${PROJECT_BINARY_DIR}/python)
file(GLOB weir_python_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/capi/python/weir/*.py ${PROJECT_SOURCE_DIR}/capi/python/weir/py.typed)
file(REMOVE_RECURSE ${WEIR_PYTHON}/weir) # modules may have gone
file(MAKE_DIRECTORY ${WEIR_PYTHON}/weir)
list(APPEND weir_python_files ${WEIR_GENERATED}/python/weir/_abi.py ${WEIR_GENERATED}/python/weir/_keywords.py)
foreach(file ${weir_python_files})
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${WEIR_PYTHON}/weir/${name} SYMBOLIC)
endforeach()
