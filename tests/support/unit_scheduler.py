"""A scheduler for `--dist loadfile` that uses its own units and survives crashed processes.

xdist gives a crashed process's tests to others, including the test that crashed it, which then crashes these too;
and if only one test is left, it leaves the replacement process waiting for a second one.
"""

from xdist.scheduler import LoadFileScheduling


class UnitScheduling(LoadFileScheduling):
    """Assigns units of tests to processes: all tests with the same `unit_of` go to one of them."""

    def __init__(self, config, log, *, unit_of, before=lambda: None):
        """Create the scheduler. It waits for `before` before it assigns the first unit."""
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
