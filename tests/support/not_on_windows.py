"""Tests of rooms that run on Windows which cannot run there as they are written, by file, each with the reason."""

import pytest

LINKS = "makes links, which takes a right on Windows that users do not have, and which Wine does not do"
MODES = "asks for modes, in whose place Windows has access lists"
PLACES = "names devices and programs of Linux and macOS"
USERS = "names users by numbers, which Windows has not"
TIMES = "asks when a file's status changed, which Python does not tell on Windows"
GIT = "asks git, which is not installed in Wine"
WINE = "calls what Wine lacks"
LINUX = "asks /proc, or runs a program of Linux that lies on the same disk in Wine"
PACE = "installs more slowly in Wine than another server waits for"
OPEN = "renames or removes what is open, as Windows does not"
OTHERS = "is about another system, which it stands in for"
REASONS: dict[str, dict[str, str]] = {
    "systems/test_file_names.py": {OTHERS: "test_a_name_that_leads_to_a_listed_file_becomes_that_ones"},
    "systems/test_programs.py": {
        OTHERS: "test_the_path_of_a_program_with_a_window_on_macos_gets_the_folders_of_a_shell"
    },
    "files/test_paths.py": {LINKS: "test_a_workspace_has_one_state_however_it_is_reached"},
    "files/test_place.py": {
        LINKS: "test_a_folder_exchanged_for_a_link_at_any_moment_never_leads_out "
        "test_a_folder_that_is_a_link_counts_as_a_link test_a_link_is_not_written_through_where_none_is_followed "
        "test_a_link_of_ones_own_is_kept_and_its_target_replaced test_a_link_that_leads_out_is_refused "
        "test_a_link_that_stays_within_is_followed_where_links_are test_links_in_a_circle_end_in_words "
        "test_a_place_stays_where_it_was_found_when_its_folder_becomes_a_link "
        "test_the_root_itself_may_be_reached_by_a_link",
        MODES: "test_a_file_to_append_to_is_made_private_and_keeps_what_is_in_it "
        "test_a_replaced_file_is_whole_and_private "
        "test_a_secret_must_be_private test_missing_folders_are_made_when_asked "
        "test_what_grants_must_not_be_writable_by_others",
        PLACES: "test_a_link_to_a_device_is_refused_unopened",
    },
    "files/test_private_folders.py": {
        MODES: "test_a_file_in_place_of_one_is_refused test_what_is_missing_above_is_made_for_the_user_alone_too "
        "test_nobody_else_may_list_what_a_server_keeps_in_the_users_state "
        "test_what_stood_open_in_the_users_state_is_closed_and_nothing_above_it",
        LINKS: "test_a_link_in_place_of_one_is_left_as_it_is",
    },
    "files/test_read_cache.py": {
        LINKS: "test_a_link_is_read_each_time_as_its_target_changes_without_it",
        TIMES: "test_nothing_is_kept_of_a_file_that_was_written_a_moment_ago",
    },
    "files/test_stamp.py": {
        TIMES: "test_a_file_that_is_put_back_with_its_old_time_is_another_one_to_every_reader",
    },
    "files/test_working_trees.py": {
        GIT: "test_a_git_that_is_no_plain_file_is_not_opened test_a_hostile_git_file_is_no_tree_and_does_no_harm "
        "test_a_link_to_a_tree_is_that_tree test_a_tree_that_its_repository_does_not_know_is_none "
        "test_a_tree_that_lies_in_the_main_checkout_is_another_one_all_the_same "
        "test_another_repository_or_none_is_no_other_tree "
        "test_two_linked_trees_are_two_and_folders_of_one_tree_are_one "
        "test_the_main_checkout_and_a_linked_tree_are_two_trees_of_one_repository",
    },
    "editing/test_batch_records.py": {LINUX: "test_a_record_is_closed_before_it_is_removed"},
    "editing/test_notebooks.py": {LINUX: "test_the_bytes_match_nbformat_which_finds_them_valid"},
    "log/test_spill.py": {
        OPEN: "test_a_directory_swept_during_its_creation_is_replaced_by_another "
        "test_output_is_stored_again_after_the_directory_was_deleted",
    },
    "net/test_found_ports.py": {USERS: "test_a_user_without_a_name_is_reported_by_number"},
    "net/test_relay_install.py": {
        WINE: "test_a_running_version_is_kept_however_many_are_installed",
        PACE: "test_concurrent_installations_leave_a_working_relay",
    },
    "settings/test_kernels.py": {
        PLACES: "test_http_to_another_machine_is_refused_unless_the_user_says_that_the_way_is_safe"
    },
    "settings/test_reload.py": {GIT: "test_an_acceptance_of_the_workspace_or_of_its_main_checkout_is_news"},
    "settings/test_trust.py": {
        LINKS: "test_a_link_to_settings_within_the_workspace_is_followed "
        "test_the_users_own_link_to_settings_is_followed",
        MODES: "test_what_is_kept_is_private_and_outside_the_workspace",
        PLACES: "test_a_settings_file_that_is_no_regular_file_of_the_workspace_is_refused "
        "test_no_command_runs_what_a_checkout_asks_for",
    },
    "files/test_workspace_walk.py": {LINKS: "test_a_link_to_a_folder_is_not_followed"},
}
"""By the path of a file below the tests: by reason, the names of its tests."""


def leave_out(items, path_of):
    """Mark what cannot run here. `path_of` gives the path of a test's file below the tests."""
    for item in items:
        for reason, names in REASONS.get(path_of(item), {}).items():
            if item.originalname in names.split():
                item.add_marker(pytest.mark.skip(reason=f"Windows: {reason}"))
