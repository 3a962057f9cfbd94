"""The parallel map of the decoder: in order, and never far ahead of whoever asks for the results."""

import threading

import pytest
import torch

from vit.data.loading.threads import decode_threads


def test_results_come_in_order_and_from_one_openmp_thread_each() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with decode_threads() as parallel:
            found = list(parallel(lambda item: (item, torch.get_num_threads()), range(100)))
        assert found == [(item, 1) for item in range(100)]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_nothing_is_begun_far_ahead_of_the_results_asked_for() -> None:
    begun: list[int] = []
    with decode_threads() as parallel:
        results = parallel(begun.append, range(100), 3)
        for asked in range(1, 20):
            next(results)
            assert len(begun) <= asked + 3
        results.close()
    assert len(begun) <= 19 + 3


def test_an_error_is_raised_where_its_result_is_asked_for() -> None:
    def read(item: int) -> int:
        if item == 5:
            raise ValueError("five")
        return item

    found: list[int] = []
    with decode_threads() as parallel, pytest.raises(ValueError, match="five"):
        found.extend(parallel(read, range(50)))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]
