"""How kernels are compiled: a target of Numba's own kind, beside the one for the processor.

Left to itself Numba compiles a callee anew for every constant that is passed to it and apart for whole
numbers of 32 and of 64 bits, gives it an entry for Python and makes machine code of it, though its callers
inline it. On this target a kernel is compiled for the types of its arguments alone; for other kernels it is
kept as LLVM's bitcode, and only what Python calls becomes machine code. Bitcode is optimized all the same,
once, before it is inlined: references that are counted in it without need are not found later, and made
looking up ids three times slower. Two details of Numba cost as much as an optimization: its flags are
compared in full at every operator, and the text about an array that does not fit a slice is made by code
that is compiled into the kernel. All that saves a third of the time.

The target is registered beside Numba's and inherits from its CPU target: typing context, target context and
code generator are its own, so functions of other packages are compiled as if rankcast were not there. A
kernel may call a plain `njit` function; the other way round Numba does not find the kernel.

Machine code is for a level of processors, not for the one at hand: `LEVELS` has what a wheel is built for,
and the first that the processor reaches is taken, in a wheel and in a checkout alike. `NUMBA_CPU_NAME` names
another. LLVM fuses a product and a sum only where it is allowed to, which it is not, so that the answers of
all levels are the same to the last bit.

`EXACT` has the only Numba flags in the package: no fastmath, because infinities are used as sentinels and
reassociation can flip a near-tie. Kernels release the GIL, keep compiled code on disk (`kernel_cache`) and
leave out the C entry, which nobody calls and which takes a tenth of the time to compile.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

from llvmlite import binding as llvm
from numba.core import compiler, config, cpu, sigutils, types, typing
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen, get_host_cpu_features
from numba.core.dispatcher import _FunctionCompiler
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target
from numba.core.runtime import rtsys
from numba.core.target_extension import CPU, dispatcher_registry, jit_registry, target_registry
from numba.core.targetconfig import ConfigStack
from numba.extending import overload
from numba.np import arrayobj

from rankcast.structures import kernel_cache
from rankcast.structures.kernel_cache import KernelCache

TARGET = "rankcast"
NO_ENTRY = "no_cpython_wrapper"
ENTRY = "_ZN7cpython"  # how the name of an entry for Python begins

# By machine the levels of processors that code is made for, best first, and what a processor must have.
V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
V3 = (*V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
X86 = (("x86-64-v3", V3), ("x86-64-v2", V2))
LEVELS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "x86_64": X86,
    "AMD64": X86,
    "aarch64": (("generic", ()),),
    "arm64": (("apple-m1", ()),),
}


@cache
def processor() -> tuple[str, str]:
    """LLVM's name of the processor that code is made for, and the features that the name does not imply."""
    if config.CPU_NAME or config.CPU_FEATURES is not None:
        return config.CPU_NAME or llvm.get_host_cpu_name(), config.CPU_FEATURES or ""
    has = llvm.get_host_cpu_features()
    for level, needs in LEVELS.get(platform.machine(), ()):
        if all(has.get(need) for need in needs):
            return level, ""
    return llvm.get_host_cpu_name(), get_host_cpu_features()


class Code(JITCodeLibrary):
    """Compiled code: bitcode for callers to inline, and machine code once somebody asks for an address."""

    is_ready = False
    _compiled_object: bytes | None = None
    _bitcode: bytes | None = None

    @property
    def can_be_inlined(self) -> bool:
        """Whether there is bitcode for other kernels; a wheel has none."""
        return self._bitcode != b""

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function of this code, 0 if it is not in here."""
        self._ensure_finalized()
        if not self.is_ready:
            if not self._defines(name):
                return 0
            self._make_ready()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        """What the cache keeps: machine code if there is any, bitcode, and names of entries for Python."""
        if not self.is_ready:
            return self.serialize_using_bitcode()
        name, kind, data = super().serialize_using_object_code()
        found = (function.name for function in self.get_defined_functions())
        return name, kind, (*data, tuple(entry for entry in found if entry.startswith(ENTRY)))

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Code:
        """As Numba does, but bitcode is parsed when another kernel inlines it: that took most of the time."""
        name, kind, data = state
        if kind != "object":
            return super()._unserialize(codegen, state)
        self = codegen.create_library(name)
        machine_code, self._bitcode, entries = data
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()
        codegen._engine._defined_symbols.update(entries)
        return self

    def _get_module_for_linking(self) -> Any:
        if self._bitcode and self._shared_module is None:
            self._shared_module = llvm.parse_bitcode(self._bitcode)
        return super()._get_module_for_linking()

    def _optimize_final_module(self) -> None:
        """As Numba does for what Python calls; what others inline has another round there."""
        if any(found.name.startswith(ENTRY) for found in self.get_defined_functions()):
            super()._optimize_final_module()
        else:
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        """Not before an address is asked for, unless the machine code comes from the cache."""
        if self._compiled_object:
            self._make_ready()
        self._finalized = True

    def _make_ready(self) -> None:
        """Make machine code, in which functions that were copied from others have no names outside.

        Numba tells functions of one name apart by counting them, in every process anew: `sort` and `argsort`
        of NumPy compile closures of one name. Forms from two processes could have the same symbol for two
        functions, and the one that was loaded first would be called for both.
        """
        if not self._compiled_object:
            self._get_module_for_linking()  # what others copy keeps its names: there it is one function
            for function in self.get_defined_functions():
                if function.linkage == llvm.Linkage.linkonce_odr:
                    function.linkage = llvm.Linkage.internal
        self.is_ready = True
        super()._finalize_final_module()

    def _defines(self, name: str) -> bool:
        return any(found.name == name and not found.is_declaration for found in self._final_module.functions)


class Codegen(JITCPUCodegen):
    """The maker of code, with `Code` for what it makes and a level of processors that it is for."""

    _library_class = Code

    def magic_tuple(self) -> tuple[str, str, str]:
        """What code is for: system and processor. A newer system of Apple's runs the same code."""
        return re.sub(r"(darwin|macosx)[0-9.]+", r"\1", self._llvm_module.triple), *processor()

    def _get_host_cpu_name(self) -> str:
        return processor()[0]

    def _get_host_cpu_features(self) -> str:
        return processor()[1]

    def set_env(self, env_name: str, env: Any) -> None:
        """Tell a function its environment, if it is somewhere in machine code."""
        if self._engine.get_global_value_address(env_name):
            super().set_env(env_name, env)


class KernelFlags(compiler.Flags):
    """Numba's flags, compared faster: only what was set in one of two can differ."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KernelFlags):
            return NotImplemented
        mine, others = self._values, other._values
        return mine == others or all(
            getattr(self, name) == getattr(other, name) for name in mine.keys() | others.keys()
        )

    def __hash__(self) -> int:
        return hash(KernelFlags)


class KernelContext(cpu.CPUContext):
    """Lowering as for the processor, with a code generator of its own."""

    def init(self) -> None:
        """Set up as Numba does, but for the code generator."""
        super().init()
        self._internal_codegen = Codegen("rankcast.exec")

    def load_additional_registries(self) -> None:
        """Load what Numba has; its runtime must belong to its own target, whoever compiles first."""
        rtsys.initialize(cpu_target.target_context)
        super().load_additional_registries()

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """The implementation of a function; if it was compiled for Numba's target, it is taken from there."""
        try:
            return super().get_function(fn, sig, _firstcall)
        except NotImplementedError:
            key = fn.get_impl_key(sig.as_function()) if isinstance(fn, types.Callable) else fn
            plain = cpu_target.target_context._defns
            if key not in plain or self._defns[key] is plain[key]:
                raise
            self._defns[key] = plain[key]
            return super().get_function(fn, sig, False)

    def _compile_subroutine_no_cache(
        self,
        builder: Any,
        impl: Any,
        sig: Any,
        locals: Any = None,  # noqa: A002
        flags: Any = None,
    ) -> Any:
        if flags is None:
            flags = KernelFlags()
            outer = ConfigStack.top_or_none()
            if outer and outer.is_set("nrt") and outer.nrt:
                flags.nrt = True
        return super()._compile_subroutine_no_cache(builder, impl, sig, locals or {}, flags)


class KernelTarget(CPUTarget):
    """Typing and lowering for kernels, made on first use."""

    @cached_property
    def _toplevel_target_context(self) -> KernelContext:
        return KernelContext(self.typing_context, self._target_name)

    @cached_property
    def _toplevel_typing_context(self) -> Any:
        return typing.Context()


class Progress:
    """Tells on standard error that the compiler is at work: a line, and on a terminal how far it is."""

    def __init__(self) -> None:
        self.is_told = False
        self.depth = self.compiled = 0
        self.began = 0.0

    @contextmanager
    def compiling(self, kernel: Any) -> Iterator[None]:
        """While a kernel is compiled, and others for it."""
        if not self.is_told:
            self.is_told, self.began = True, time.monotonic()
            self._say(_told(kernel))
        shown = sys.stderr and sys.stderr.isatty() and self.began
        self.depth += 1
        if shown:
            seconds = time.monotonic() - self.began
            self._say(f"\r\x1b[Kcompiling: {self.compiled} kernels, {seconds:.0f} s, {kernel.__name__}")
        try:
            yield
        finally:
            self.depth -= 1
            self.compiled += 1
            if shown and not self.depth:
                self._say("\r\x1b[K")

    def _say(self, text: str) -> None:
        if sys.stderr:
            sys.stderr.write(text)
            sys.stderr.flush()


PROGRESS = Progress()


def _told(kernel: Any) -> str:
    """Why somebody has to wait."""
    kept = KernelCache(kernel).cache_path
    where = f"they are kept in {kept}" if kept else "no directory can be written to, so none is kept"
    text, here = f"rankcast: compiling kernels for their first use; {where}", kernel_cache.versions()
    if kernel_cache.VERSIONS.exists():
        there = kernel_cache.VERSIONS.read_text().strip()
        text += f" (this installation has some for {there}; here is {here})" if there != here else ""
    return text + "\n"


class KernelCompiler(_FunctionCompiler):
    """Numba's compiler of one function, with `KernelFlags`, that tells of our own kernels."""

    def compile(self, args: Any, return_type: Any) -> Any:
        """Compile for the types of arguments."""
        if not self.py_func.__module__.startswith("rankcast."):
            return super().compile(args, return_type)
        with PROGRESS.compiling(self.py_func):
            return super().compile(args, return_type)

    def _customize_flags(self, flags: Any) -> KernelFlags:
        return KernelFlags(flags)


class Exact(CPU):
    """The processor, as Numba knows it, with `Kernel` for its functions."""


target_registry[TARGET] = Exact


class Implementation(CPUDispatcher):
    """What Numba implements in Python, such as a function of NumPy, compiled for kernels."""

    targetdescr = KernelTarget(TARGET)

    def __init__(self, py_func: Any, locals: Any, targetoptions: dict[str, Any]) -> None:  # noqa: A002
        super().__init__(py_func, locals, targetoptions)
        pipeline = self._compiler.pipeline_class
        self._compiler = KernelCompiler(py_func, self.targetdescr, targetoptions, locals, pipeline)


class Cache(KernelCache):
    """Compiled forms on disk; one with an entry for Python is kept apart from one without."""

    def __init__(self, py_func: Any, options: dict[str, Any]) -> None:
        super().__init__(py_func)
        self._options = options

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self._options[NO_ENTRY])


class Kernel(Implementation):
    """A kernel, compiled once for the types of its arguments however another kernel calls it.

    Who asks decides what is made: a form for Python, or one without an entry when another kernel calls.
    """

    def __init__(self, py_func: Any, locals: Any, targetoptions: dict[str, Any]) -> None:  # noqa: A002
        super().__init__(py_func, locals, {**targetoptions, NO_ENTRY: False})
        self._replaced: list[Any] = []

    def enable_caching(self) -> None:
        """Keep compiled forms on disk."""
        self._cache = Cache(self.py_func, self.targetoptions)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How another kernel calls this one: its arguments are widened on the way."""
        wide = {name: _widened(kind) for name, kind in kws.items()}
        before, self.targetoptions[NO_ENTRY] = self.targetoptions[NO_ENTRY], True
        try:
            return super().get_call_template([_widened(kind) for kind in args], wide)
        finally:
            self.targetoptions[NO_ENTRY] = before

    def compile(self, sig: Any) -> Any:
        """Fetch or make a form; one without an entry will not do for Python, a wheel's not for kernels."""
        kinds = tuple(sigutils.normalize_signature(sig)[0])
        known: Any = self.overloads.get(kinds)
        if known is not None:
            code = known.library
            if not (code.can_be_inlined if self.targetoptions[NO_ENTRY] else code.is_ready):
                self._replaced.append(self.overloads.pop(kinds))  # Python may go on calling it
        return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Take a compiled form; Python is told of it only if there is an entry for Python.

        The functions inlined from other kernels then have their addresses, and learn their environments.
        """
        if self.targetoptions[NO_ENTRY]:
            self.overloads[tuple(cres.signature.args)] = cres
            return
        for environment in cres._find_referenced_environments():
            cres.library.codegen.set_env(environment.env_name, environment)
        super().add_overload(cres)


def _widened(kind: Any) -> Any:
    """A type without the value of a constant, a signed whole number with all its bits."""
    kind = types.unliteral(kind)
    return types.int64 if kind in types.signed_domain else kind


def _implement(**options: Any) -> Callable[[Any], Implementation]:
    """Numba's `jit` for what it implements in Python, on this target."""
    return lambda py_func: Implementation(py_func, {}, options)


dispatcher_registry[Exact] = Kernel
jit_registry[Exact] = _implement


@overload(arrayobj.raise_with_shape_context, target=TARGET)
def _refuse_slice(src_shapes: Any, index_shape: Any) -> Any:
    def refuse(src_shapes: Any, index_shape: Any) -> None:
        raise ValueError("cannot assign slice from input of different size")

    return refuse


EXACT: dict[str, Any] = {
    "_target": TARGET,
    "cache": True,
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
