from labrunner.sandbox.docker.engine.replies import Process
from labrunner.sandbox.docker.watching.residue import changed_system, intruders

WRAPPER = Process(pid=100, parent=50, is_dead=False, command="/bin/sh /agentlab/in/.wrapper.sh 777")
SHELL = Process(pid=101, parent=100, is_dead=False, command=WRAPPER.command)
SLEEP = Process(pid=102, parent=101, is_dead=False, command="sleep 777")


def left(*processes: Process) -> list[int]:
    return [process.pid for process in intruders(processes, 100, 777)]


def test_the_wrapper_and_its_timer_are_no_intruders() -> None:
    assert left(WRAPPER, SHELL, SLEEP) == []
    assert left(WRAPPER) == []


def test_a_process_that_has_ended_is_no_intruder() -> None:
    assert left(WRAPPER, SHELL, SLEEP, Process(pid=9, parent=100, is_dead=True, command="evil")) == []


def test_whoever_else_is_there_is_one() -> None:
    assert left(WRAPPER, SHELL, SLEEP, Process(pid=9, parent=100, is_dead=False, command="evil")) == [9]


def test_a_sleep_of_another_length_is_no_timer() -> None:
    other = Process(pid=102, parent=101, is_dead=False, command="sleep 778")
    assert left(WRAPPER, SHELL, other) == [101, 102]


def test_a_second_timer_makes_all_of_them_suspect() -> None:
    twin = Process(pid=103, parent=101, is_dead=False, command="sleep 777")
    assert left(WRAPPER, SHELL, SLEEP, twin) == [101, 102, 103]


def test_a_timer_that_is_not_the_wrappers_child_is_an_intruder() -> None:
    stray = Process(pid=101, parent=1, is_dead=False, command="sh")
    assert left(WRAPPER, stray, SLEEP) == [101, 102]


def test_only_the_innermost_changed_paths_count() -> None:
    assert changed_system(["/usr", "/usr/bin", "/usr/bin/python3", "/usr-local"], ()) == (
        "/usr-local",
        "/usr/bin/python3",
    )


def test_scratch_places_and_the_working_directory_are_no_system() -> None:
    changes = [
        "/tmp",
        "/tmp/x",
        "/var",
        "/var/tmp",
        "/var/tmp/y",
        "/agentlab",
        "/etc",
        "/src",
        "/src/main.py",
    ]
    assert changed_system(changes, ("/src",)) == ()
    assert changed_system([*changes, "/etc/passwd", "/srcs"], ("/src",)) == ("/etc/passwd", "/srcs")
