"""Ctrl-C wherever it can come in a block: one run of the block for each of these moments."""

import dis
import inspect
import sys


class _CtrlC:
    """Raises KeyboardInterrupt at the given moment of code in these files.

    The interpreter looks for signals where a function begins, after calls and where a loop begins
    anew; not, for example, between the end of a block and the release of the lock that it held.
    """

    def __init__(self, moment, files):
        self.left, self.files = moment, files
        self._last = {}  # instruction of each frame, by its number: a frame would live on

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        frame.f_trace_opcodes = True
        # What a tracer raises where an exception enters a generator would end it on the spot.
        looks = event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if event in ("call", "exception"):
            self._last.pop(id(frame), None)
        elif event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            looks = name == "JUMP_BACKWARD" or self._last.get(id(frame), "").startswith("CALL")
            self._last[id(frame)] = name
        if looks:
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted_everywhere(block, *files):
    """Run the block and interrupt it in these files; after each run yield at which moment."""
    outer, moment, reached = sys.gettrace(), 0, True
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks for it before the first settrace
    while reached:
        ctrl_c = _CtrlC(moment, files)
        try:
            sys.settrace(ctrl_c)
            block()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(outer)
        reached = ctrl_c.left < 0
        yield moment
        moment += 1
