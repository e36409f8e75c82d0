"""The scheduler of `--dist loadfile`, by units of our own, which survives processes that crash.

xdist gives a crashed process's tests to others, the test that crashed it among them, which then crashes these too; and
it leaves a process that was started in its place waiting for a second test, if only one is left.
"""

from xdist.scheduler import LoadFileScheduling


class UnitScheduling(LoadFileScheduling):
    """Hands out units of tests to processes: all tests of which `unit_of` gives the same unit to one of them."""

    def __init__(self, config, log, *, unit_of, before=lambda: None):
        """`before`: what is waited for before the first unit is handed out."""
        super().__init__(config, log)
        self._unit_of = unit_of
        self._before = before

    def _split_scope(self, nodeid):
        return self._unit_of(nodeid)

    def schedule(self):
        self._before()
        super().schedule()

    def _reschedule(self, node):
        super()._reschedule(node)
        if not self.workqueue:
            node.shutdown()  # it runs all that it was given, also the last test

    def remove_node(self, node):
        units = self.assigned_work.pop(node)
        pending = [(unit, test) for unit in units.values() for test, is_over in unit.items() if not is_over]
        if not pending:
            return None
        (unit, crashed), *_ = pending
        unit[crashed] = True
        self.workqueue.update({name: unit for name, unit in units.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed
