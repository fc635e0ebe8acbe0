"""Ctrl-C at every instruction of a block: one run of the block for each of them."""

import sys


class _CtrlC:
    """Raises KeyboardInterrupt at the given bytecode of these files."""

    def __init__(self, instruction, files):
        self.left, self.files = instruction, files

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.endswith(self.files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted_everywhere(block, *files):
    """Run the block and interrupt it, after each run yield which instruction that was.

    Only instructions in these files are; the interpreter may raise between any two of them.
    """
    outer, instruction, reached = sys.gettrace(), 0, True
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks for it before the first settrace
    while reached:
        ctrl_c = _CtrlC(instruction, files)
        try:
            sys.settrace(ctrl_c)
            block()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(outer)
        reached = ctrl_c.left < 0
        yield instruction
        instruction += 1
