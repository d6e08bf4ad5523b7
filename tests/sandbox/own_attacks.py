"""Attacks by kind, ours: ``(id, code, acceptable outcomes)``.

Outcomes: ``value:JSON rows``, ``result``, ``blocked`` (the program reports a refusal), ``error:Type``,
``timeout``, ``output_limit``, ``signal:N``, ``exit:N``, ``bad_payload``. All are harmless if they succeed.
"""

from __future__ import annotations

import json

Attack = tuple[str, str, list[str]]
NUMBERS = {
    # what generated code has no business with; x86_64 numbers
    "socket": 41, "connect": 42, "sendto": 44, "bind": 49, "socketpair": 53, "clone": 56, "vfork": 58,
    "execve": 59, "shmget": 29, "setitimer": 38, "alarm": 37, "semget": 64, "msgget": 68, "truncate": 76,
    "chdir": 80, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "chown": 92, "umask": 95, "ptrace": 101, "syslog": 103, "setuid": 105, "setpgid": 109,
    "setsid": 112, "setreuid": 113, "setgroups": 116, "setresuid": 117, "capset": 126, "rt_sigqueueinfo": 129,
    "utime": 132, "mknod": 133, "personality": 135, "setpriority": 141, "sched_setscheduler": 144, "mlock": 149,
    "modify_ldt": 154, "pivot_root": 155, "prctl": 157, "arch_prctl": 158, "adjtimex": 159, "setrlimit": 160,
    "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "reboot": 169,
    "sethostname": 170, "iopl": 172, "ioperm": 173, "init_module": 175, "quotactl": 179, "setxattr": 188,
    "sched_setaffinity": 203, "io_setup": 206, "timer_create": 222, "clock_settime": 227, "mq_open": 240,
    "kexec_load": 246, "add_key": 248, "ioprio_set": 251, "inotify_init": 253, "unshare": 272, "splice": 275,
    "tee": 276, "vmsplice": 278, "signalfd": 282, "timerfd_create": 283, "eventfd": 284, "pipe2": 293,
    "perf_event_open": 298, "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "seccomp": 317,
    "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323, "copy_file_range": 326,
    "pkey_mprotect": 329, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "fsopen": 430,
    "pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "pidfd_getfd": 438,
    "mount_setattr": 442, "landlock_create_ruleset": 444, "memfd_secret": 447, "process_mrelease": 448,
}


def tries(code: str) -> str:
    """The program reports whether ``code`` (which sets r) got through."""
    body = "\n".join("    " + line for line in code.splitlines())
    return (f"try:\n{body}\n    result=[['ESCAPED',str(r)[:60]]]\n"
            "except BaseException as e:\n    result=[['BLOCKED',type(e).__name__]]\n")


SYSCALLS = ("import ctypes,platform\nL=ctypes.CDLL(None,use_errno=True); L.syscall.restype=ctypes.c_long\nresult=[]\n"
            f"for name,number in {NUMBERS!r}.items():\n    r=L.syscall(number,0,0,0,0,0)\n"
            "    result.append([name,r,ctypes.get_errno()])")
"""Makes every call of :data:`NUMBERS`; rows ``[name, returned, errno]``."""


_FILES = {
    "zoneinfo_traversal": "import zoneinfo\nr=zoneinfo.ZoneInfo('../../../../etc/passwd')",
    "zoneinfo_path": "r=open('/usr/share/zoneinfo/../../../etc/passwd').read()",
    "tzfile": "from dateutil import tz\nr=tz.tzfile('/etc/passwd')",
    "proc_maps": "r=open('/proc/self/maps').read()",
    "proc_cmdline_parent": "import os\nr=open(f'/proc/{os.getppid()}/cmdline').read()",
    "proc_root": "import os\nr=os.listdir('/proc/1/root')",
    "sysfs": "import os\nr=os.listdir('/sys/class/net')",
    "dev": "r=open('/dev/urandom','rb').read(1)",
    "dev_mem": "r=open('/dev/mem','rb').read(1)",
    "cgroup": "r=open('/sys/fs/cgroup/cgroup.controllers').read()",
    "scandir_root": "import os\nr=[e.name for e in os.scandir('/')]",
    "pathlib": "import pathlib\nr=pathlib.Path('/etc/hostname').read_text()",
    "np_fromfile": "r=np.fromfile('/etc/passwd',dtype='u1')[:3]",
    "np_loadtxt": "r=np.loadtxt('/etc/passwd',dtype=str,delimiter=':')",
    "np_save": "np.save('/tmp/sandbox_escape_np',np.zeros(1)); r=1",
    "linecache": "import linecache\nr=linecache.getlines('/etc/passwd')\nif not r: raise OSError",
    "sqlite_read": "import sqlite3\nr=sqlite3.connect('file:/etc/passwd?mode=ro',uri=True).execute('select 1').fetchall()",
    "sqlite_write": "import sqlite3\nc=sqlite3.connect('/tmp/sandbox_escape.db'); c.execute('create table t(a)'); r=1",
    "sqlite_attach": "import sqlite3\nc=sqlite3.connect(':memory:'); c.execute(\"attach '/tmp/sandbox_escape.db' as x\"); "
                     "c.execute('create table x.t(a)'); r=1",
    "sqlite_vacuum_into": "import sqlite3\nc=sqlite3.connect(':memory:'); c.execute('create table t(a)')\n"
                          "c.execute(\"vacuum into '/tmp/sandbox_escape.db'\"); r=1",
    "to_csv": "df.to_csv('/tmp/sandbox_escape.csv'); r=1",
    "to_pickle": "df.to_pickle('/tmp/sandbox_escape.pkl'); r=1",
    "to_sql_file": "import sqlite3\ndf.to_sql('t',sqlite3.connect('/tmp/sandbox_escape.db')); r=1",
    "zipfile": "import zipfile\nzipfile.ZipFile('/tmp/sandbox_escape.zip','w'); r=1",
    "logging": "import logging\nlogging.FileHandler('/tmp/sandbox_escape.log'); r=1",
    "shelve": "import shelve\nshelve.open('/tmp/sandbox_escape.shelf'); r=1",
    "tmpfile_flag": "import os\nr=os.open('/tmp',os.O_TMPFILE|os.O_RDWR)",
    "tmpfile_root": "import os\nr=os.open('/',os.O_TMPFILE|os.O_RDWR)",
    "write_own_root": "r=open('/x','w')",
    "write_stdlib": "import os\nr=open(os.__file__,'a')",
    "write_pandas": "r=open(pd.__file__,'r+')",
    "mkdir": "import os\nos.mkdir('/tmp/sandbox_escape_d'); r=1",
    "symlink": "import os\nos.symlink('/etc/passwd','/tmp/sandbox_escape_l'); r=open('/tmp/sandbox_escape_l').read()",
    "hardlink": "import os\nos.link(os.__file__,'/tmp/sandbox_escape_h'); r=1",
    "chmod_stdlib": "import os\nos.chmod(os.__file__,0o777); r=1",
    "utime_stdlib": "import os\nos.utime(os.__file__,(0,0)); r=1",
    "site_packages": "import os\nr=os.listdir(os.path.dirname(os.path.dirname(pd.__file__)))",
    "harness_source": "import sys\nr=open(sys.modules['inside.zygote'].__file__).read()",
    "pydantic": "import pydantic\nr=1",
    "project": "import pandora_train\nr=1",
    "pyarrow": "import sys\nsys.modules.pop('pyarrow',None); sys.meta_path[:]=sys.meta_path[1:]\nimport pyarrow\nr=1",
    "dlopen_host": "import ctypes,glob\nr=ctypes.CDLL('/usr/lib/x86_64-linux-gnu/libnss_files.so.2')",
    "runpy": "import runpy\nr=runpy.run_path('/etc/passwd')",
    "git": "import os\nr=os.listdir(os.path.expanduser('~'))",
    "glob": "import glob\nr=glob.glob('/home/*')+glob.glob('/etc/*')\nif not r: raise OSError",
    "walk": "import os\nr=[f for d,_,fs in os.walk('/etc') for f in fs]\nif not r: raise OSError",
    "getpwnam": "import pwd\nr=pwd.getpwnam('root')",
    "o_path_fd": "import os\nfd=os.open('/',os.O_PATH); r=os.open('etc/passwd',os.O_RDONLY,dir_fd=fd)",
    "dotdot_cwd": "r=open('../../../../../../etc/passwd').read()",
}
_NET = {
    "udp": "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); r=s.sendto(b'x',('127.0.0.1',48765))",
    "ipv6": "import socket\nr=socket.socket(socket.AF_INET6)",
    "netlink": "import socket\nr=socket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0)",
    "raw": "import socket\nr=socket.socket(socket.AF_INET,socket.SOCK_RAW,1)",
    "packet": "import socket\nr=socket.socket(socket.AF_PACKET,socket.SOCK_RAW)",
    "vsock": "import socket\nr=socket.socket(socket.AF_VSOCK,socket.SOCK_STREAM)",
    "alg": "import socket\nr=socket.socket(socket.AF_ALG,socket.SOCK_SEQPACKET)",
    "unix_path": "import socket\ns=socket.socket(socket.AF_UNIX); s.connect('/var/run/docker.sock'); r=1",
    "unix_abstract_bind": "import socket\ns=socket.socket(socket.AF_UNIX); s.bind('\\0sandbox_escape_b'); r=1",
    "dns": "import socket\nr=socket.gethostbyname('example.com')",
    "http_client": "import http.client\nc=http.client.HTTPConnection('127.0.0.1',48765,timeout=1); c.request('GET','/'); r=1",
    "read_html": "r=pd.read_json('http://127.0.0.1:48765/x.json')",
    "asyncio": "import asyncio\nr=asyncio.run(asyncio.open_connection('127.0.0.1',48765))",
    "standard_input": "import os\nr=os.write(0,b'kill 1')\nif os.read(0,1)==b'': raise OSError('nowhere')",
    "stream_as_socket": "import socket\ns=socket.socket(fileno=3); s.sendmsg([b'x']); r=1",
    "pass_descriptor": "import socket,os\ns=socket.socket(fileno=3); socket.send_fds(s,[b'x'],[1]); r=1",
}
_PROCESSES = {
    "kill_group": "import os\nos.kill(0,0); r=1",
    "kill_all": "import os\nos.kill(-1,0); r=1",
    "killpg": "import os\nos.killpg(os.getpgrp() if hasattr(os,'getpgrp') else 0,0); r=1",
    "kill_init": "import os\nos.kill(1,0); r=1",
    "pidfd": "import os\nr=os.pidfd_open(os.getppid())",
    "setown": "import fcntl,os\nfcntl.fcntl(3,fcntl.F_SETOWN,os.getppid()); r=1",
    "setsig": "import fcntl\nfcntl.fcntl(3,10,9); r=1",
    "lease": "import fcntl,os\nr=fcntl.fcntl(os.open(os.__file__,0),fcntl.F_SETLEASE,fcntl.F_WRLCK)",
    "subprocess": "import subprocess\nr=subprocess.run(['/bin/true'])",
    "popen": "import os\nr=os.popen('id').read()\nif not r: raise OSError",
    "posix_spawn": "import os\nr=os.posix_spawn('/bin/true',['true'],{})",
    "pty": "import pty\nr=pty.fork()",
    "multiprocessing": "import multiprocessing as m\np=m.get_context('fork').Process(target=print); p.start(); r=1",
    "thread_pool": "from concurrent.futures import ThreadPoolExecutor as T\nr=T(2).submit(len,'x').result()",
    "timer_thread": "import threading\nt=threading.Timer(0,print); t.start(); r=1",
    "start_new_thread": "import _thread\nr=_thread.start_new_thread(print,())",
    "faulthandler_thread": "import faulthandler\nfaulthandler.dump_traceback_later(60); r=1",
    "wx_memory": "import mmap\nr=mmap.mmap(-1,4096,prot=mmap.PROT_WRITE|mmap.PROT_EXEC)",
    "x_memory": "import mmap\nr=mmap.mmap(-1,4096,prot=mmap.PROT_READ|mmap.PROT_EXEC)",
    "mprotect": "import ctypes,mmap\nm=mmap.mmap(-1,4096); a=ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
                "r=ctypes.CDLL(None).mprotect(ctypes.c_void_p(a),4096,5)\nif r: raise OSError",
    "raise_limit": "import resource\nresource.setrlimit(resource.RLIMIT_CPU,(10**6,10**6)); r=1",
    "raise_memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS,(-1,-1)); r=1",
    "prlimit_parent": "import resource,os\nresource.prlimit(os.getppid(),resource.RLIMIT_CPU,(1,1)); r=1",
    "affinity": "import os\nos.sched_setaffinity(0,{0}); r=1",
    "nice": "import os\nos.nice(-1); r=1",
}
_ENDLESS = {
    "ignore_signals": "import signal\nfor n in range(1,65):\n    try: signal.signal(n,signal.SIG_IGN)\n    except Exception: pass\n"
                      "while True: pass",
    "mask_signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK,signal.valid_signals())\nwhile True: pass",
    "no_faulthandler": "import faulthandler,signal\nfaulthandler.disable(); faulthandler.unregister(signal.SIGUSR1)\nwhile True: pass",
    "settrace": "import sys\ndef f(*a):\n    while True: pass\nsys.settrace(f)\n(lambda: 1)()",
    "deadlock": "import threading\nl=threading.Lock(); l.acquire(); l.acquire()",
    "select": "import select\nselect.select([],[],[])",
    "finally_loop": "try:\n    1/0\nfinally:\n    while True: pass",
    "except_star": "def f():\n    try: f()\n    except BaseException: f()\nwhile True:\n    try: f()\n    except BaseException: pass",
    "del_loop": "class D:\n    def __del__(s):\n        while True: pass\nd=D(); del d",
    "big_power": "result=str(7**(10**9))[:1]",
    "metaclass_instancecheck": "class M(type):\n    def __instancecheck__(c,o):\n        while True: pass\nclass A(metaclass=M): pass\n"
                               "isinstance(1,A)",
    "evil_bool": "class B:\n    def __bool__(s):\n        while True: pass\nresult=[1] if B() else []",
    "partial_header": "import os\nos.write(3,b'J   ')\nwhile True: pass",
    "trickle": "import os,time\nos.write(3,b'J   5000000')\nwhile True:\n    os.write(3,b' '); time.sleep(0.0002)",
    "trickle_garbage": "import os,time\nwhile True:\n    os.write(3,b' '); time.sleep(0.005)",
    "partial_reply": "import os\nos.write(3,b'J       100{')\nwhile True: pass",
}
_MEMORY = {
    "text": "result='x'*10**11", "zeros": "np.zeros((10**6,10**6))\nresult=[['ESCAPED','']]",
    "cross": "d=df\nfor n in range(12): d=d.merge(df[['x']].add_suffix(str(n)),how='cross')\nresult=len(d)",
    "range_frame": "result=len(pd.DataFrame({'a':range(3*10**8)}))",
    "inflate": "import zlib\nd=b''.join(zlib.compress(b'\\0'*(1<<24)) for _ in range(64))\nresult=len(b''.join("
               "zlib.decompress(zlib.compress(b'\\0'*(1<<24))) for _ in range(200)))",
    "malloc": "import ctypes\nL=ctypes.CDLL(None); L.malloc.restype=ctypes.c_void_p\nif L.malloc(3<<30): result=[['ESCAPED','']]\n"
              "else: raise MemoryError",
    "endless_list": "result=list(iter(int,1))",
}


def _row(value: str) -> list[str]:
    return [f"value:{json.dumps([[value]])}"]


_SHAPES: list[Attack] = [
    ("cell_surrogate", "result='a\\ud800b'", _row("ab")),
    ("cell_controls", "result='a\\x00\\x1b[31m\\x07\\x85b'", _row("a[31mb")),
    ("cell_lines", "result='a\\n\\tb'", _row("a\n\tb")),
    ("cell_huge_int", "result=10**5000", ["error:ValueError"]),
    ("cell_deep", "x=[]\nfor _ in range(500000): x=[x]\nresult=[[x,1]]", ["error:RecursionError", "signal:11", "error:MemoryError"]),
    ("self_reference", "result=[]\nresult.append(result)", ["result", "error:RecursionError"]),
    ("evil_class", "class C:\n    __class__=property(lambda s: list)\nresult=C()", ["result", "error:TypeError"]),
    ("evil_class_frame", "class C:\n    __class__=property(lambda s: pd.DataFrame)\nresult=C()", ["error:AttributeError"]),
    ("evil_float", "class F(float):\n    def __repr__(s): return 'x'*10**8\nresult=[[F(1)]]", ["output_limit", "error:MemoryError", "result"]),
    ("evil_str", "class S(str):\n    def __str__(s): return 7\nresult=[[S('a')]]", ["error:TypeError"]),
    ("evil_str_twice", "class S(str):\n    def __str__(s): return s\n    def __len__(s): return -1\nresult=[[S('a')]]",
     ["result", "error:ValueError", "error:TypeError"]),
    ("evil_eq", "class E:\n    def __eq__(s,o): 1/0\n    __hash__=None\nresult=[[E()]]", ["result"]),
    ("evil_repr_raises", "class E:\n    def __str__(s): raise KeyError('k')\nresult=[[E()]]", ["error:KeyError"]),
    ("evil_iter_raises", "class L(list):\n    def __iter__(s): 1/0\nresult=L([1])", ["error:ZeroDivisionError"]),
    ("evil_len", "class L(list):\n    def __len__(s): return 10**12\nresult=[L([1])]", ["result", "error:MemoryError", "error:OverflowError"]),
    ("evil_getattr", "class G:\n    def __getattr__(s,n): 1/0\nresult=G()", ["result", "error:ZeroDivisionError"]),
    ("endless_rows", "import itertools\nresult=([i] for i in itertools.count())", ["output_limit"]),
    ("endless_row", "import itertools\nclass R(list):\n    def __iter__(s): return itertools.count()\nresult=[R([1])]",
     ["output_limit", "error:ValueError", "error:MemoryError"]),
    ("one_huge_cell", "result='x'*5_000_000", ["output_limit"]),
    ("many_cells", "result=[list(range(1000))]*3000", ["output_limit"]),
    ("evil_subclass_frame", "class D(pd.DataFrame):\n    @property\n    def iloc(s): 1/0\nresult=D({'a':[1]})", ["error:ZeroDivisionError"]),
    ("column_names", "d=pd.DataFrame({'__import__(\"os\").abort()':[1],'a\\nb':[2]})\nresult=d", ['value:[["1", "2"]]']),
    ("error_long", "raise ValueError('x'*10**7)", ["error:ValueError"]),
    ("error_name", "raise type('E'*10**6,(Exception,),{})('x')", ["error:" + "E" * 200]),
    ("error_controls", "raise ValueError('\\x1b[2J\\ud800')", ["error:ValueError"]),
    ("error_class_lies", "class E(Exception):\n    __class__=property(lambda s: SyntaxError)\n    filename='<code>'; lineno='x'; msg=7\nraise E()",
     ["error:E"]),
    ("error_lineno_lies", "e=SyntaxError('x'); e.filename='<code>'; e.lineno=10**30\nraise e", ["error:SyntaxError", "bad_payload"]),
    ("error_args_lie", "e=KeyError(); e.args=(type('K',(),{'__str__':lambda s:1/0})(),)\nraise e", ["error:KeyError"]),
    ("error_traceback_loop", "e=ValueError(); e.__cause__=e\nraise e", ["error:ValueError"]),
    ("keyboard_interrupt", "raise KeyboardInterrupt", ["error:KeyboardInterrupt"]),
    ("generator_exit", "raise GeneratorExit", ["error:GeneratorExit"]),
    ("system_exit_none", "raise SystemExit", ["error:SystemExit"]),
    ("excepthook", "import sys\nsys.excepthook=lambda *a: None\nsys.unraisablehook=None\n1/0", ["error:ZeroDivisionError"]),
    ("atexit", "import atexit\natexit.register(lambda: [None for _ in iter(int,1)])\nresult='done'", _row("done")),
    ("alarm", "import signal\ntry: signal.alarm(1)\nexcept OSError: pass\nresult='done'", _row("done")),
    ("input", "result=input()", ["error:EOFError"]),
    ("stdout_closed", "import sys\nsys.stdout.close(); sys.stderr=None\nresult='done'", _row("done")),
    ("gc_off", "import gc\ngc.unfreeze(); gc.set_threshold(1); gc.collect()\nresult='done'", _row("done")),
    ("gc_callbacks", "import gc\ngc.callbacks.append(lambda *a: 1/0)\ngc.collect()\nresult='done'", _row("done")),
    ("null_pointer_write", "import ctypes\nctypes.memset(0,0,1)", ["signal:11"]),
    ("refcount_none", "import ctypes\nctypes.memset(id(None),0,8)\nresult=None", ["signal:11", "signal:6", "result", "exit:70"]),
    ("sigkill_self", "import os\nos.kill(os.getpid(),9)", ["signal:9"]),
    ("sigstop_self", "import os\nos.kill(os.getpid(),19)\nresult=1", ["timeout"]),
    ("sigusr1_self", "import os\nos.kill(os.getpid(),10)\nos._exit(0)", ["exit:0"]),
    ("exit_70", "import os\nos._exit(70)", ["exit:70"]),
    ("floating_point", "result=1//0", ["error:ZeroDivisionError"]),
    ("stack_overflow_c", "import re\nresult=re.compile('('*50000+')'*50000)", ["error:RecursionError", "error:MemoryError", "signal:11", "error:OverflowError", "error:error", "result"]),
    ("deep_source", "result=" + "(" * 5000 + ")" * 5000, ["error:SyntaxError", "error:MemoryError", "error:RecursionError"]),
    ("deep_ast", "import ast\nresult=len(ast.dump(ast.parse('-'*90000+'1')))", ["error:MemoryError", "error:RecursionError", "signal:11", "error:SyntaxError", "result"]),
    ("warnings_off", "import warnings\nwarnings.resetwarnings(); warnings.showwarning=1/1\nwarnings.warn('x')\nresult='done'",
     ["result", "error:TypeError", "error:UserWarning"]),
    ("warnings_error", "import warnings\nwarnings.simplefilter('error')\nresult='done'", _row("done")),
]
_FORGED: list[Attack] = [
    (f"forge_{name}", f"import os\np={payload!r}\nos.write(3,b'J%10d'%len(p)+p)\nos._exit(0)", expected)
    for name, payload, expected in [
        ("rows_numbers", b'{"outcome":"result","rows":[[1]],"types":["int"],"shape":"rows","hint":""}', ["bad_payload"]),
        ("rows_text", b'{"outcome":"result","rows":"abc","types":[],"shape":"rows","hint":""}', ["bad_payload"]),
        ("rows_flat", b'{"outcome":"result","rows":["a"],"types":[],"shape":"rows","hint":""}', ["bad_payload"]),
        ("rows_nested", b'{"outcome":"result","rows":[[["a"]]],"types":[],"shape":"rows","hint":""}', ["bad_payload"]),
        ("shape", b'{"outcome":"result","rows":[["a"]],"types":["str"],"shape":"evil","hint":""}', ["bad_payload"]),
        ("types", b'{"outcome":"result","rows":[["a"]],"types":["evil"],"shape":"rows","hint":""}', ["bad_payload"]),
        ("shape_list", b'{"outcome":"result","rows":[["a"]],"types":[],"shape":["rows"],"hint":""}', ["bad_payload"]),
        ("missing", b'{"outcome":"result"}', ["bad_payload"]),
        ("outcome", b'{"outcome":"victory"}', ["bad_payload"]),
        ("outcome_list", b'{"outcome":[]}', ["bad_payload"]),
        ("list", b"[]", ["bad_payload"]), ("empty", b"", ["bad_payload"]), ("nan", b"NaN", ["bad_payload"]),
        ("not_utf8", b"\xff\xfe\xff", ["bad_payload"]), ("big_int", b"9" * 9999, ["bad_payload"]),
        ("line", b'{"outcome":"error","type":"E","message":"m","line":-5,"hint":""}', ["bad_payload"]),
        ("line_big", b'{"outcome":"error","type":"E","message":"m","line":1e99,"hint":""}', ["bad_payload"]),
        ("surrogate", b'{"outcome":"error","type":"E\\ud800","message":"\\u001b","line":null,"hint":""}', ["error:E"]),
        ("honest", b'{"outcome":"result","rows":[["a"]],"types":["str"],"shape":"rows","hint":""}', _row("a")),
    ]
] + [
    ("forge_length_negative", "import os\nos.write(3,b'J        -1{}')\nos._exit(0)", ["bad_payload"]),
    ("forge_length_text", "import os\nos.write(3,b'Jxxxxxxxxxx')\nos._exit(0)", ["bad_payload"]),
    ("forge_length_huge", "import os\nos.write(3,b'J9999999999')\nos._exit(0)", ["output_limit"]),
    ("forge_short", "import os\nos.write(3,b'J      1000{')\nos._exit(0)", ["bad_payload"]),
    ("forge_trace", "import os\nos.write(3,b'Fatal Python error: x\\n  File \"<code>\", line 99999999999\\n')\nos._exit(0)",
     ["exit:0", "bad_payload"]),
    ("forge_flood", "import os\nwhile True: os.write(3,b'x'*65536)", ["bad_payload", "timeout"]),
    ("forge_not_received", "import os\nos.write(3,b'F no luck')\nos._exit(70)", ["bad_payload"]),
    ("reply_twice", "import os\np=b'{}'\nfor fd in range(3,9):\n    try: os.write(fd,b'J%10d'%len(p)+p)\n    except OSError: pass\n"
                    "result='done'", ["bad_payload"]),
    ("stream_replaced", "import os\nos.dup2(1,3)\nresult='done'", ["exit:0", "timeout"]),
    ("harness_answer", "import sys\nm=sys.modules['inside.child']\nm.evaluate=lambda *a: {'outcome':'result'}\nm._dumps=lambda a,**k: '[]'\n"
                       "result='done'", ["bad_payload", "value:[[\"done\"]]"]),
]
_AFTER = "import random,decimal,os,sys,warnings,locale\nresult=[[len(df),df.x.sum(),len([1,2]),sorted(df.k.unique()),random.random(),"
_AFTER += "np.random.rand(),os.environ.get('X_LEFT'),decimal.getcontext().prec,pd.get_option('display.max_rows'),sys.getrecursionlimit(),"
_AFTER += "np.geterr()['divide'],hasattr(os,'left')]]"
FOLLOWUP = _AFTER
"""Run after each of :data:`STATE`; its rows must always be the same."""
STATE: dict[str, str] = {
    "frame_inplace": "df.loc[:,'x']=-1.0\ndf.drop(columns='k',inplace=True)\nresult=1",
    "frame_buffer": "import ctypes\nctypes.memset(df['x'].to_numpy().ctypes.data,0,48)\nresult=1",
    "frame_text": "a=df['k'].array._ndarray\na[:]='z'\nresult=1",
    "modules": "import os,sys\nos.left=1\nsys.path.insert(0,'/tmp'); sys.modules['json']=None\nresult=1",
    "environment": "import os\nos.environ['X_LEFT']='1'\nresult=1",
    "decimal": "import decimal\ndecimal.getcontext().prec=2\ndecimal.DefaultContext.prec=2\nresult=1",
    "options": "pd.set_option('display.max_rows',1)\nnp.seterr(all='raise')\nresult=1",
    "recursion": "import sys\nsys.setrecursionlimit(99999)\nresult=1",
    "random": "import random\nrandom.seed(5); np.random.seed(5)\nresult=1",
    "classes": "pd.Series.sum=lambda *a,**k: 42\npd.Series.unique=None\npd.DataFrame.__len__=lambda s: 99\nresult=1",
    "builtins": "import builtins\nbuiltins.len=lambda x: 7\nbuiltins.sorted=None\nresult=1",
    "small_int": "import ctypes\nctypes.memset(id(2)+24,9,1)\nresult='x'",
    "crash": "import ctypes\nctypes.string_at(0)",
    "kill": "import os\nos.kill(os.getpid(),9)",
    "harness": "import sys\nfor n,m in list(sys.modules.items()):\n    if n.startswith('inside'): vars(m).clear()\nresult=1",
}

BLOCKED: dict[str, str] = {**_FILES, **_NET, **_PROCESSES}
ATTACKS: list[Attack] = [
    *((name, tries(code), ["blocked"]) for name, code in BLOCKED.items()),
    *((f"endless_{name}", code, ["timeout"]) for name, code in _ENDLESS.items()),
    ("close_and_stay", "import os,time\nos.close(3)\nwhile True: time.sleep(1)", ["signal:9", "timeout"]),
    *((f"memory_{name}", code, ["error:MemoryError", "error:_ArrayMemoryError", "timeout"]) for name, code in _MEMORY.items()),
    *_SHAPES,
    *_FORGED,
]
