"""Tests that cannot run on Windows as they are written, although the tested code does, by file and with the reason."""

import pytest

LINKS = "creates links, which users are not allowed to do on Windows, and which Wine does not support"
MODES = "checks modes, but Windows has access lists instead"
PLACES = "uses devices and programs of Linux and macOS"
USERS = "identifies users by numbers, which Windows does not have"
TIMES = "needs the time of a file's last status change, which Python does not report on Windows"
GIT = "runs git, which is not installed in Wine"
WINE = "calls a function that Wine lacks"
LINUX = "uses /proc, or runs a Linux program that is on the same disk in Wine"
PACE = "takes longer to install in Wine than another server waits"
OPEN = "renames or removes an open file, which Windows does not allow"
OTHERS = "simulates another system"
REASONS: dict[str, dict[str, str]] = {
    "systems/test_file_names.py": {OTHERS: "test_a_name_that_differs_in_case_is_replaced_by_the_spelling_on_disk"},
    "systems/test_programs.py": {OTHERS: "test_a_macos_app_gets_the_path_directories_of_a_shell"},
    "files/test_codriver_paths.py": {LINKS: "test_a_workspace_reached_by_a_symlink_has_the_same_state"},
    "files/test_place.py": {
        LINKS: "test_swapping_a_directory_for_a_link_never_writes_outside "
        "test_a_symlinked_directory_counts_as_a_link test_no_write_goes_through_a_link_where_links_are_not_followed "
        "test_replacing_through_the_users_own_link_keeps_the_link test_a_link_that_leads_out_of_the_root_is_refused "
        "test_a_link_within_the_root_is_followed_only_if_allowed test_a_symlink_loop_is_reported_clearly "
        "test_a_located_directory_stays_the_same_when_its_path_becomes_a_link "
        "test_the_root_itself_may_be_a_symlink",
        MODES: "test_a_file_opened_for_appending_is_private_and_keeps_its_content "
        "test_a_replaced_file_is_complete_and_private "
        "test_a_secret_file_must_be_private test_missing_directories_are_created_on_request "
        "test_a_file_that_grants_permission_must_not_be_writable_by_others",
        PLACES: "test_a_link_to_a_device_is_refused_without_opening_it",
    },
    "files/test_private_folders.py": {
        MODES: "test_a_file_in_place_of_a_directory_is_refused test_missing_parent_directories_are_created_private_too "
        "test_all_directories_of_a_servers_user_state_are_private "
        "test_state_directories_are_made_private_but_not_their_parent_directories",
        LINKS: "test_a_symlinked_state_directory_keeps_its_permissions",
    },
    "files/test_read_cache.py": {
        LINKS: "test_a_symlink_is_never_cached",
        TIMES: "test_a_file_that_was_just_written_is_not_cached",
    },
    "files/test_stamp.py": {
        TIMES: "test_restoring_the_modification_time_does_not_hide_a_change",
    },
    "files/test_working_trees.py": {
        GIT: "test_a_git_path_that_is_not_a_regular_file_is_not_opened test_a_hostile_git_file_is_harmless "
        "test_a_symlink_to_a_tree_is_the_same_tree test_a_forged_link_to_a_repository_does_not_make_a_working_tree "
        "test_a_tree_inside_the_main_checkout_is_a_different_tree "
        "test_another_repository_is_not_another_tree "
        "test_linked_trees_differ_from_each_other_but_subdirectories_do_not "
        "test_the_main_checkout_and_a_linked_tree_are_different_trees",
    },
    "editing/test_batch_records.py": {LINUX: "test_a_record_is_closed_before_it_is_removed"},
    "features/jupyter/test_notebook_files.py": {
        LINUX: "test_written_notebooks_match_nbformat_byte_for_byte_and_are_valid"
    },
    "log/test_history_file.py": {
        OPEN: "test_a_removed_file_is_created_again_with_all_entries test_a_file_that_was_replaced_is_continued",
    },
    "log/test_spill.py": {
        OPEN: "test_a_directory_swept_during_its_creation_is_replaced_by_another "
        "test_output_is_stored_again_after_the_directory_was_deleted",
    },
    "net/test_found_ports.py": {USERS: "test_a_user_without_a_name_is_reported_by_number"},
    "net/test_relay_install.py": {
        WINE: "test_a_running_version_is_kept_however_many_are_installed",
        PACE: "test_concurrent_installations_leave_a_working_relay",
    },
    "features/jupyter/test_kernel_settings.py": {
        PLACES: "test_plain_http_to_another_machine_needs_the_users_explicit_setting"
    },
    "settings/test_environment_grant.py": {
        GIT: "test_the_acceptance_lapses_when_someone_else_provides_the_environment "
        "test_accepting_the_workspace_again_accepts_a_changed_environment "
        "test_ordinary_changes_do_not_revoke_the_grant "
        "test_an_environment_created_after_the_acceptance_is_covered "
        "test_an_environment_that_git_tracks_after_the_acceptance_is_not_covered "
        "test_an_environment_in_another_directory_is_not_covered "
        "test_accepting_the_workspace_accepts_the_environment_named_by_the_python_setting "
        "test_the_first_answer_says_why_the_acceptance_lapsed",
    },
    "settings/test_grants.py": {LINKS: "test_a_replaced_environment_ends_the_permission"},
    "settings/test_reload.py": {
        GIT: "test_a_running_server_notices_when_the_workspace_or_its_main_checkout_is_accepted"
    },
    "settings/test_trust.py": {
        LINKS: "test_a_settings_link_within_the_workspace_is_followed "
        "test_a_link_in_the_users_own_settings_is_followed "
        "test_an_unreadable_settings_file_suspends_the_acceptance_of_settings_and_environment",
        MODES: "test_the_acceptance_record_is_private_and_outside_the_workspace",
        PLACES: "test_an_unreadable_acceptance_record_suspends_both_acceptances_and_is_reported "
        "test_a_settings_file_that_is_not_a_regular_file_in_the_workspace_is_refused "
        "test_no_command_runs_a_program_that_an_unaccepted_checkout_names",
    },
    "files/test_workspace_walk.py": {LINKS: "test_a_link_to_a_directory_is_not_followed"},
}
"""The names of tests, by the path of their file below the tests and by reason."""


def leave_out(items, path_of):
    """Skip tests that cannot run on this system. `path_of` returns the path of a test's file below `tests`."""
    for item in items:
        for reason, names in REASONS.get(path_of(item), {}).items():
            if item.originalname in names.split():
                item.add_marker(pytest.mark.skip(reason=f"Windows: {reason}"))
