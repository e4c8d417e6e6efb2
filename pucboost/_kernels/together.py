"""Kernels that call one another are compiled together, once, and read tuples of arrays by reference.

Numba makes machine code of each function, then links it into every function that calls it and optimises it there again,
and again in the callers of these. With kernels that call kernels that call kernels, most of that work is thrown away.
Here a kernel that is called by another one is only translated (*inner*); the kernel that Python calls (*outer*) is
linked with all it needs, and optimised and made machine code of once.

The rest saves time in numba's translation itself: passes that kernels do not need are left out, the type of an
operation is found once, and an item of an array is read by a few instructions.

This leans on how numba is built inside. If a version does not fit, a line in the log says so, and kernels are compiled
in numba's own way: more slowly, to the same effect.
"""

from __future__ import annotations

import gc
import hashlib
import logging
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba.core import cgutils, codegen, compiler
from numba.core import types as numba_types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AttributeTemplate, Signature
from numba.core.typing.typeof import typeof, typeof_impl
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox
from numba.np import arrayobj

Class = TypeVar("Class", bound=type)

types: Any = numba_types  # without declarations

logger = logging.getLogger("pucboost")

_broken = False
"""Whether something has failed that should not: from then on, kernels are compiled in numba's own way."""


def compiled_together(function: Any, **options: Any) -> Any:
    """Return a kernel that is compiled together with those it calls; ``options`` are numba's."""
    allocates = "empty" in function.__code__.co_names  # then numba counts references, and others cannot call it
    return _Kernel(function, {}, {"nopython": True, "boundscheck": None, "_nrt": allocates, **options})


# ----- libraries: what is linked, optimised and made machine code of


class _Inner(codegen.JITCodeLibrary):
    """A translated kernel, for others to be linked with."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._finalized = True


class _Outer(codegen.JITCodeLibrary):
    """A kernel that Python calls, with all that it calls."""

    counts_references = False

    def _optimize_functions(self, module: Any) -> None:
        if self.counts_references:
            super()._optimize_functions(module)
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._linking_libraries = list(_all_linked(self, {self}))
        super().finalize()

    def _optimize_final_module(self) -> None:
        passes: Any = self._codegen._module_pass_manager()
        manager, *builder = passes if isinstance(passes, tuple) else (passes,)  # no builder before numba 0.62
        manager.run(self._final_module, *builder)


def _all_linked(library: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield what a library is linked with, and what the inner ones of these are linked with."""
    for one in library._linking_libraries:
        if one not in seen:
            seen.add(one)
            yield one
            if isinstance(one, _Inner):
                yield from _all_linked(one, seen)


# ----- from typed Python to LLVM


class _Lower(Lower):
    """Numba's translation, but items of arrays, and the lesser and larger of two numbers, take no calls."""

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        array = self.typeof(value.name)
        place = self._place(array, value, index, signature.args[1])
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        item = arrayobj.load_item(self.context, self.builder, array, place)
        return self.context.cast(self.builder, item, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        array = self.typeof(target_var.name)
        place = self._place(array, target_var, index_var, signature.args[1])
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        item = self.loadvar(value_var.name)
        item = self.context.cast(self.builder, item, self.typeof(value_var.name), signature.args[2])
        item = self.context.cast(self.builder, item, signature.args[2], array.dtype)
        return arrayobj.store_item(self.context, self.builder, array, item, place)

    def _place(self, kind: Any, array_var: Any, index_var: Any, index_kind: Any) -> Any:
        """Return the address of an item of an array in C order; None for other arrays and indices."""
        several = isinstance(index_kind, types.BaseTuple)
        kinds = tuple(index_kind) if several else (index_kind,)
        if type(kind) is not types.Array or kind.layout != "C" or len(kinds) != kind.ndim:
            return None
        if self.context.enable_boundscheck or not all(isinstance(one, types.Integer) for one in kinds):
            return None
        builder, context = self.builder, self.context
        array = context.make_array(kind)(context, builder, self.loadvar(array_var.name))
        index = context.cast(builder, self.loadvar(index_var.name), self.typeof(index_var.name), index_kind)
        place = None
        for axis, one in enumerate(kinds):
            number = builder.extract_value(index, axis) if several else index
            number = context.cast(builder, number, one, types.intp if one.signed else types.uintp)
            size = builder.extract_value(array.shape, axis)
            if one.signed and not isinstance(number, ir.Constant):  # −1 is the last
                below = builder.icmp_signed("<", number, number.type(0))
                number = builder.select(below, builder.add(number, size), number)
            elif one.signed and number.constant < 0:
                number = builder.add(number, size)
            place = number if place is None else builder.add(builder.mul(place, size), number)
        return builder.gep(array.data, [place])

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        if not _is_of_two(fnty, signature.args):
            return super()._lower_call_normal(fnty, expr, signature)
        builder, wanted = self.builder, signature.return_type
        given = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
        a, b = (self.context.cast(builder, *one, wanted) for one in zip(given, signature.args, strict=True))
        sign = "<" if fnty.typing_key is min else ">"
        if isinstance(wanted, types.Float):
            return builder.select(builder.fcmp_ordered(sign, b, a), b, a)
        return builder.select((builder.icmp_signed if wanted.signed else builder.icmp_unsigned)(sign, b, a), b, a)


def _is_of_two(function: Any, args: Any) -> bool:
    """Return whether this is ``min`` or ``max`` of two numbers."""
    numbers = [isinstance(one, types.Integer | types.Float) for one in args]
    return type(function) is types.Function and function.typing_key in (min, max) and numbers == [True, True]


_contexts: dict[int, Any] = {}


def _with_memory(context: Any) -> Any:
    """Return a typing context that remembers the types of operations; all else it shares with numba's."""
    if id(context) not in _contexts:
        known: dict[Any, Any] = {}

        class Remembering(type(context)):  # type: ignore[misc]
            def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
                if type(func) not in (types.Function, types.NumberClass) or kws:
                    return super().resolve_function_type(func, args, kws)
                plain = tuple(map(types.unliteral, args))
                if _is_of_two(func, plain):
                    return Signature(self.unify_types(*plain), plain, None)
                key = id(func), tuple(args)
                if key not in known:
                    known[key] = func, super().resolve_function_type(func, args, kws)
                return known[key][1]

        _contexts[id(context)] = shared = object.__new__(Remembering)
        shared.__dict__ = context.__dict__
    return _contexts[id(context)]


# ----- compilers

_LEFT_OUT = {
    "AnnotateTypes", "DeadBranchPrune", "DumpParforDiagnostics", "FindLiterallyCalls", "InlineClosureLikes",
    "InlineInlinables", "InlineOverloads", "LiteralPropagationSubPipelinePass", "LiteralUnroll",
    "MakeFunctionToJitFunction", "NoPythonSupportedFeatureValidation", "NopythonRewrites", "RewriteDynamicRaises",
    "RewriteSemanticConstants", "WithLifting",
}  # fmt: skip
"""Passes for closures, literals, array expressions, ``with`` and exceptions: kernels have none of these."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    _name = "pucboost_inner_lowering"
    lowering_class = _Lower

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        state.library = _Inner(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        key = object()  # in place of an address, by which callers find the kernel
        state["cr"] = state["cr"]._replace(cfunc=key)
        state.targetctx.insert_user_function(key, state["cr"].fndesc, [state.library])
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(NativeLowering):
    _name = "pucboost_outer_lowering"
    lowering_class = _Lower

    def run_pass(self, state: Any) -> bool:
        state.library = _Outer(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.counts_references = state.flags.nrt
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


class _Compiler(CompilerBase):
    lowering: Any = _OuterLowering

    def __init__(self, typingctx: Any, *args: Any, **options: Any) -> None:
        super().__init__(_with_memory(typingctx), *args, **options)

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("pucboost")
        passes._ENFORCING = False  # checks after each pass, for who writes passes
        for one, what in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if one.__name__ not in _LEFT_OUT:
                passes.add_pass(self.lowering if one is NativeLowering else one, what)
        passes.finalize()
        return [passes]


class _InnerCompiler(_Compiler):
    lowering = _InnerLowering


# ----- kernels


class _InnerKernel(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template([types.unliteral(one) for one in args], kws)

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres


class _Kernel(CPUDispatcher):
    """A kernel for Python; to other kernels it is its inner twin."""

    _compiler: Any

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None, **options: Any) -> None:  # noqa: A002
        given = dict(targetoptions or {})
        super().__init__(py_func, locals or {}, given, **{"pipeline_class": _Compiler, **options})
        inner = given | {"no_cpython_wrapper": True, "_nrt": False}
        self._inner = _InnerKernel(py_func, {}, inner, pipeline_class=_InnerCompiler)

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self if _broken or self.targetoptions.get("_nrt") else self._inner)

    def compile(self, sig: Any) -> Any:
        global _broken
        if _broken:
            return self._compiled_by_numba(sig)
        collects = gc.isenabled()
        gc.disable()  # much is made and little dropped: to look for garbage would take a tenth of the time
        try:
            return super().compile(sig)
        except Exception as error:
            _broken, problem = True, error
        finally:
            if collects:
                gc.enable()
        try:
            found = self._compiled_by_numba(sig)
        except Exception:  # then it is not our fault
            _broken = False
            raise
        logger.warning("Kernels are compiled in numba's own way, which takes longer: %r", problem)
        return found

    def _compiled_by_numba(self, sig: Any) -> Any:
        self._compiler.pipeline_class = compiler.Compiler
        self._compiler._failed_cache.clear()
        return super().compile(sig)


# ----- tuples by reference
#
# To numba a tuple of twenty arrays is some 150 numbers, which are passed one by one to each kernel that takes it. Here
# it is the address of a table of words: address, shape and strides of each array, and numbers. Tables never
# change, and LLVM is told so: it reads them once, before a loop.

_WORD = ir.IntType(64)


class _Table(numba_types.Type):
    """The type of a table: the types of its fields, and where each of them begins."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = dict(fields)
        self.start: dict[str, int] = {}
        words = 0
        for field, kind in fields:
            self.start[field] = words
            words += _words_of(kind)
        super().__init__(name=f"{name}_{hashlib.sha256(repr(fields).encode()).hexdigest()[:12]}")


def _words_of(kind: Any) -> int:
    """Return how many words a field takes."""
    if isinstance(kind, types.Array):
        return 1 + 2 * int(kind.ndim)
    return sum(map(_words_of, kind)) if isinstance(kind, types.BaseTuple) else 1


def _written(value: Any, kind: Any) -> list[int]:
    """Return the words of a field."""
    if isinstance(kind, types.Array):
        return [value.ctypes.data, *value.shape, *value.strides]
    if isinstance(kind, _Table):
        return [value.address]
    if isinstance(kind, types.BaseTuple):
        return [word for one, its in zip(value, kind, strict=True) for word in _written(one, its)]
    if isinstance(kind, types.Float):
        return [int(np.float64(value).view(np.int64))]
    return [int(np.uint64(value).view(np.int64)) if kind == types.uint64 else int(value)]


def _look(value: Any) -> Any:
    """Return what the type of a field follows from; to ask numba for it takes a hundred times as long."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if hasattr(value, "_kind"):
        return value._kind
    return tuple(map(_look, value)) if isinstance(value, tuple) else type(value)


_known: dict[Any, _Table] = {}


def by_reference(named_tuple: Class) -> Class:
    """Have kernels take a class of named tuples by reference; a field is an array, a number or such a tuple."""

    class Table(named_tuple):  # type: ignore[valid-type, misc]
        __doc__ = named_tuple.__doc__

        @cached_property
        def _kind(self) -> _Table:
            look = named_tuple, *map(_look, self)
            if look not in _known:
                fields = named_tuple._fields  # type: ignore[attr-defined]
                _known[look] = _Table(named_tuple.__name__, tuple(zip(fields, map(typeof, self), strict=True)))
            return _known[look]

        @cached_property
        def _words(self) -> Any:
            kinds = self._kind.fields.values()
            words = [word for value, kind in zip(self, kinds, strict=True) for word in _written(value, kind)]
            return np.array(words, dtype=np.int64)

        @cached_property
        def address(self) -> int:
            return int(self._words.ctypes.data)

    for name in ("__module__", "__name__", "__qualname__"):
        setattr(Table, name, getattr(named_tuple, name))
    typeof_impl.register(Table)(lambda value, _context: value._kind)
    return Table  # type: ignore[return-value]


@register_model(_Table)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


@unbox(_Table)
def _address_of(kind: Any, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_ulonglong(number)
    c.pyapi.decref(number)
    failed = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(c.builder.inttoptr(address, _WORD.as_pointer()), is_error=failed)


@infer_getattr
class _Fields(AttributeTemplate):
    key = _Table

    def generic_resolve(self, kind: Any, field: str) -> Any:  # type: ignore[override]
        return kind.fields.get(field)


@lower_getattr_generic(_Table)
def _field(context: Any, builder: Any, kind: Any, table: Any, field: str) -> Any:
    return _read(context, builder, table, kind.start[field], kind.fields[field])


def _read(context: Any, builder: Any, table: Any, at: int, kind: Any) -> Any:
    def word(number: int) -> Any:
        value = builder.load(builder.gep(table, [ir.Constant(ir.IntType(32), at + number)]))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    if isinstance(kind, types.Array):
        n, item = kind.ndim, context.get_data_type(kind.dtype)
        data = builder.inttoptr(word(0), item.as_pointer())
        shape, strides = ([word(1 + part * n + k) for k in range(n)] for part in range(2))
        array = arrayobj.make_array(kind)(context, builder)
        arrayobj.populate_array(array, data, shape, strides, context.get_abi_sizeof(item), None)
        return array._getvalue()
    if isinstance(kind, _Table):
        return builder.inttoptr(word(0), _WORD.as_pointer())
    if isinstance(kind, types.BaseTuple):
        values = []
        for one in kind:
            values.append(_read(context, builder, table, at, one))
            at += _words_of(one)
        return context.make_tuple(builder, kind, values)
    value = word(0)
    if isinstance(kind, types.Float):
        return builder.bitcast(value, ir.DoubleType())
    return builder.trunc(value, ir.IntType(1)) if isinstance(kind, types.Boolean) else value
