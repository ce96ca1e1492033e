"""NumPy's arrays in and out of a library that uses fascicle-dlpack: tests/arrays.py LIBRARY."""
import ctypes
import sys

import numpy as np

library = ctypes.PyDLL(sys.argv[1])
library.numbers.restype = ctypes.c_void_p
library.double_in_place.argtypes = [ctypes.c_void_p]
python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"


def double(array):
    capsule = array.__dlpack__(max_version=(1, 0))
    pointer = python.PyCapsule_GetPointer(capsule, NAME)
    python.PyCapsule_SetName(capsule, USED)
    return library.double_in_place(pointer)


for dtype in (np.float64, np.float32, np.float16):
    array = np.arange(12, dtype=dtype).reshape(3, 4)
    references = sys.getrefcount(array)
    assert double(array) == 0
    assert (array == 2 * np.arange(12).reshape(3, 4)).all(), array
    assert double(array[1:]) == 0 and array[1, 0] == 16 and array[0, 3] == 6, "an offset"
    assert sys.getrefcount(array) == references, "given back"
print("refused: ", end="", flush=True)
assert double(np.ones((3, 4), np.float32).T) == 1
print("refused: ", end="", flush=True)
assert double(np.ones(3, np.complex64)) == 1


class Ours:
    def __dlpack__(self, **options):
        return python.PyCapsule_New(library.numbers(), NAME, None)

    def __dlpack_device__(self):
        return (1, 0)


array = np.from_dlpack(Ours())
assert array.dtype == np.float32 and (array == np.arange(6).reshape(2, 3)).all()
array[0, 0] = 7
assert double(array) == 0 and array[0, 0] == 14, "their memory is ours"
del array
print("numpy: ok")
