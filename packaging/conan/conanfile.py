"""Conan 2 recipe of the tree that it lies in: conan create packaging/conan"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Redlock(ConanFile):
    name = "redlock"
    license = "MIT"
    description = "A distributed lock over independent Redis masters"
    topics = ("lock", "redis", "redlock")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "command": [True, False], "tls": [True, False]}
    default_options = {"shared": False, "command": False, "tls": True, "hiredis/*:with_ssl": True}

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        self.version = re.search(r"(?m)^  VERSION ([0-9.]+)$", load(self, os.path.join(self._tree, "CMakeLists.txt")))[1]

    def export_sources(self):
        for part in "CMakeLists.txt", "LICENSE", "*.md", "cmake/*", "quorum/*", "src/*", "cli/*", "include/*", "man/*", "completions/*", "docs/*", "examples/*", "bench/README.md":
            copy(self, part, self._tree, self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("redlock runs on Linux")

    def requirements(self):
        self.requires("hiredis/1.2.0")
        self.requires("libev/4.33")
        if self.options.tls:
            self.requires("openssl/[>=1.1.1 <4]")
        if self.options.command:
            self.requires("inih/57")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        settings = {
            "REDLOCK_BUILD_SHARED": self.options.shared,
            "REDLOCK_BUILD_CLI": self.options.command,
            "REDLOCK_BUILD_TESTS": False,
            "REDLOCK_BUILD_BENCH": False,
            "REDLOCK_BUILD_EXAMPLES": False,
        }
        for name, value in settings.items():
            toolchain.cache_variables[name] = bool(value)
        toolchain.cache_variables["REDLOCK_TLS"] = "ON" if self.options.tls else "OFF"
        for dependency in self.dependencies.host.values():
            if dependency.package_folder:
                toolchain.cache_variables[f"{dependency.ref.name}_ROOT".upper()] = dependency.package_folder.replace("\\", "/")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["redlock"]
        self.cpp_info.set_property("cmake_target_name", "redlock::redlock")
        self.cpp_info.set_property("pkg_config_name", "redlock")
        if not self.options.shared:
            self.cpp_info.system_libs = ["m", "pthread"]
