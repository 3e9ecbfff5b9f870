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

`EXACT` has the only Numba flags in the package: no fastmath, because infinities are used as sentinels and
reassociation can flip a near-tie. Kernels release the GIL, keep compiled code on disk (`kernel_cache`) and
leave out the C entry, which nobody calls and which takes a tenth of the time to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba.core import compiler, cpu, sigutils, types, typing
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.dispatcher import _FunctionCompiler
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target
from numba.core.runtime import rtsys
from numba.core.target_extension import CPU, dispatcher_registry, jit_registry, target_registry
from numba.core.targetconfig import ConfigStack
from numba.extending import overload
from numba.np import arrayobj

from rankcast.structures.kernel_cache import KernelCache

TARGET = "rankcast"
NO_ENTRY = "no_cpython_wrapper"
ENTRY = "_ZN7cpython"  # how the name of an entry for Python begins


class Code(JITCodeLibrary):
    """Compiled code: bitcode for callers to inline, and machine code once somebody asks for an address."""

    is_ready = False
    _compiled_object: bytes | None = None

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function of this code, 0 if it is not in here."""
        self._ensure_finalized()
        if not self.is_ready:
            if not self._defines(name):
                return 0
            self._make_ready()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        """What the cache keeps: machine code if there is any."""
        return super().serialize_using_object_code() if self.is_ready else self.serialize_using_bitcode()

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
        self.is_ready = True
        super()._finalize_final_module()

    def _defines(self, name: str) -> bool:
        return any(found.name == name and not found.is_declaration for found in self._final_module.functions)


class Codegen(JITCPUCodegen):
    """The maker of code, with `Code` for what it makes."""

    _library_class = Code

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


class KernelCompiler(_FunctionCompiler):
    """Numba's compiler of one function, with `KernelFlags`."""

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
        """Fetch or make a form; one without an entry will not do for Python."""
        kinds = tuple(sigutils.normalize_signature(sig)[0])
        known: Any = self.overloads.get(kinds)
        if known is not None and not (known.library.is_ready or self.targetoptions[NO_ENTRY]):
            del self.overloads[kinds]
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
